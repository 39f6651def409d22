#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/safetensors_header.h"
#include "folder.h"

namespace slicecheck::checkpoint {
namespace {

// The Reason of opening a file of these bytes; "" where it opens.
std::string refusal(std::string_view bytes) {
  const Folder folder;
  write_file(folder / "x.safetensors", bytes);
  const Result<Safetensors> file = Safetensors::open(folder / "x.safetensors");
  if (!file.reason) return "";
  const std::string& text = file.reason.text();
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  const std::size_t name = text.find("/x.safetensors: ");
  EXPECT_NE(name, std::string::npos) << text;
  return text.substr(name + 16);
}

std::string refusal(std::string_view header, std::size_t data_bytes) {
  return refusal(safetensors(header, data_bytes));
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{\"t\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}}";
}

TEST(Safetensors, golden_files_are_written_again_byte_for_byte) {
  for (const std::string_view payload : {"bytes", "numeric", "exact"}) {
    const std::string path =
        golden("e2-h128-i128-tp2-seed1-" + std::string(payload) + ".safetensors");
    Result<Safetensors> file = Safetensors::open(path);
    ASSERT_FALSE(file.reason) << file.reason.text();
    const Folder folder;
    Result<SafetensorsWriter> writer =
        SafetensorsWriter::create(folder / "again", file->metadata(), file->tensors());
    ASSERT_FALSE(writer.reason) << writer.reason.text();
    for (const TensorEntry& tensor : file->tensors()) {
      ByteVector bytes(tensor.bytes);
      ASSERT_FALSE(file->read(tensor, 0, bytes));
      // In two pieces, the first of them of an odd size.
      const std::size_t first = bytes.size() / 3 | 1;
      ASSERT_FALSE(writer->add(Bytes(bytes).first(first)));
      ASSERT_FALSE(writer->add(Bytes(bytes).subspan(first)));
    }
    ASSERT_FALSE(writer->finish());
    EXPECT_EQ(contents(folder / "again"), contents(path)) << payload;
  }
}

TEST(Safetensors, metadata_and_odd_names_are_written_as_python_does) {
  const Folder folder;
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(
      folder / "f", {{"b", "\"\n"}, {"a", "1"}}, {{"\xC3\xA9", Element::f4, {3, 2}, 0, 0}});
  ASSERT_FALSE(writer.reason) << writer.reason.text();
  ASSERT_FALSE(writer->add(ByteVector{1, 2, 3}));
  ASSERT_FALSE(writer->finish());
  const std::string header =
      R"({"__metadata__": {"a": "1", "b": "\"\n"}, )"
      R"("\u00e9": {"dtype": "F4", "shape": [3, 2], "data_offsets": [0, 3]}})";
  const std::string written = contents(folder / "f");
  EXPECT_EQ(written.substr(8, header.size()), header);
  EXPECT_EQ((written.size() - 3) % 8, 0U);
  const Result<Safetensors> again = Safetensors::open(folder / "f");
  ASSERT_FALSE(again.reason) << again.reason.text();
  EXPECT_EQ(again->metadata().at("b"), "\"\n");
  ASSERT_NE(again->find("\xC3\xA9"), nullptr);
  EXPECT_EQ(text(*again->find("\xC3\xA9")), "F4 [3, 2]");
  EXPECT_EQ(again->find("e"), nullptr);
}

TEST(Safetensors, healthy_files_of_other_writers_are_read) {
  EXPECT_EQ(refusal("{}", 0), "");
  EXPECT_EQ(refusal("{}      ", 0), "");
  EXPECT_EQ(refusal(entry("F32", "[]", "[0,4]"), 4), "");
  EXPECT_EQ(refusal(entry("U8", "[0,7]", "[0,0]"), 0), "");
  EXPECT_EQ(refusal(entry("F4", "[3,2]", "[0,3]"), 3), "");
  EXPECT_EQ(refusal(entry("F6_E2M3", "[4]", "[0,3]"), 3), "");
  EXPECT_EQ(refusal(R"({"__metadata__":null})", 0), "");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":"b"}})", 0), "");
  // Unordered entries, an empty tensor between two, and members that the format does not know.
  EXPECT_EQ(refusal(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3],"x":[{"y":[]}]},)"
                    R"("e":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
                    R"("a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})",
                    3),
            "");
}

TEST(Safetensors, a_wrong_header_length_is_named) {
  EXPECT_EQ(refusal(""), "header length: the file has 0 bytes, expected 8 or more");
  EXPECT_EQ(refusal("1234567"), "header length: the file has 7 bytes, expected 8 or more");
  EXPECT_EQ(refusal(std::string("\0\0\0\0\0\0\0\x80{}", 10)),
            "header length: is 9223372036854775808, expected at most 100000000");
  EXPECT_EQ(refusal(std::string("\x01\xE1\xF5\x05\0\0\0\0{}", 10)),
            "header length: is 100000001, expected at most 100000000");
  EXPECT_EQ(refusal(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
            "header length: is 3, the file has 2 bytes behind it");
  EXPECT_EQ(refusal(std::string(8, '\0')), "header: does not begin with '{'");
}

TEST(Safetensors, a_header_that_is_no_such_json_is_named) {
  EXPECT_EQ(refusal(" {}", 0), "header: does not begin with '{'");
  EXPECT_EQ(refusal("{", 0), "header: not JSON at byte 2");
  EXPECT_EQ(refusal("{}x", 0), "header: not JSON at byte 3");
  EXPECT_EQ(refusal(std::string_view("{}\0", 3), 0), "header: not JSON at byte 3");
  EXPECT_EQ(refusal("{\"\xff\":1}", 0), "header: not JSON at byte 3");
  EXPECT_EQ(refusal(entry("U8", "[NaN]", "[0,1]"), 1), "header: not JSON at byte 29");
  EXPECT_EQ(refusal(entry("U8", "[1e999]", "[0,1]"), 1),
            "header: a number out of range at byte 33");
  EXPECT_EQ(refusal(R"({"t":1})", 0), "header: 't': is not an object");
  EXPECT_EQ(refusal(R"({"t":[]})", 0), "header: 't': is an array, expected an object");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":1}})", 0),
            "header: '__metadata__': 'a': is not a string");
  EXPECT_EQ(refusal(R"({"__metadata__":{"a":{}}})", 0),
            "header: '__metadata__': a value is not a string");
  std::string deep = R"({"t":{"x":)" + std::string(127, '[');
  EXPECT_EQ(refusal(deep, 0), "header: nests deeper than 128");
  deep = R"({"t":{"x":)" + std::string(126, '[') + std::string(126, ']') +
         R"(,"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_EQ(refusal(deep, 1), "");
}

TEST(Safetensors, keys_that_stand_twice_are_refused) {
  EXPECT_EQ(refusal(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    2),
            "header: key 't' stands twice in one object");
  EXPECT_EQ(refusal(R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
            "header: key 'dtype' stands twice in one object");
  EXPECT_EQ(refusal(R"({"a":{"\u0061":1,"a":2}})", 0),
            "header: key 'a' stands twice in one object");
}

TEST(Safetensors, a_wrong_entry_is_named_with_its_member) {
  EXPECT_EQ(refusal(R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1),
            "header: 't': dtype: is missing");
  EXPECT_EQ(refusal(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1),
            "header: 't': shape: is missing");
  EXPECT_EQ(refusal(R"({"t":{"dtype":"U8","shape":[1]}})", 1),
            "header: 't': data_offsets: is missing");
  EXPECT_EQ(refusal(entry("F9", "[1]", "[0,1]"), 1),
            "header: 't': dtype: 'F9' is none of the format");
  EXPECT_EQ(refusal(entry("U8", "[-1]", "[0,1]"), 1),
            "header: 't': shape: number 0 is not a whole one below 2^63");
  EXPECT_EQ(refusal(entry("U8", "[1,-0]", "[0,1]"), 1),
            "header: 't': shape: number 1 is not a whole one below 2^63");
  EXPECT_EQ(refusal(entry("U8", "[1.0]", "[0,1]"), 1),
            "header: 't': shape: number 0 is not a whole one below 2^63");
  EXPECT_EQ(refusal(entry("U8", "[9223372036854775808]", "[0,1]"), 1),
            "header: 't': shape: number 0 is not a whole one below 2^63");
  EXPECT_EQ(refusal(entry("U8", "[99999999999999999999]", "[0,1]"), 1),
            "header: 't': shape: number 0 is not a whole one below 2^63");
  EXPECT_EQ(refusal(entry("U8", "[[1]]", "[0,1]"), 1),
            "header: 't': shape: an extent is not a number");
  EXPECT_EQ(refusal(entry("U8", "1", "[0,1]"), 1), "header: 't': shape: is not an array");
  EXPECT_EQ(refusal(entry("U8", "[1]", "[0]"), 1),
            "header: 't': data_offsets: has 1 numbers, expected 2");
  EXPECT_EQ(refusal(entry("U8", "[1]", "[1,0]"), 1),
            "header: 't': data_offsets: end 0 lies before begin 1");
}

TEST(Safetensors, spans_have_no_hole_no_overlap_and_end_with_the_file) {
  EXPECT_EQ(refusal(entry("U8", "[1]", "[1,2]"), 2),
            "header: 't': data_offsets: begins at 1, expected 0 (no hole, no overlap)");
  const auto two = [](std::string_view second) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
           R"("b":{"dtype":"U8","shape":[2],"data_offsets":)" +
           std::string(second) + "}}";
  };
  EXPECT_EQ(refusal(two("[2,4]"), 4), "");
  EXPECT_EQ(refusal(two("[1,3]"), 3),
            "header: 'b': data_offsets: begins at 1, expected 2 (no hole, no overlap)");
  EXPECT_EQ(refusal(two("[3,5]"), 5),
            "header: 'b': data_offsets: begins at 3, expected 2 (no hole, no overlap)");
  EXPECT_EQ(refusal(two("[0,2]"), 2),
            "header: 'b': data_offsets: begins at 0, expected 2 (no hole, no overlap)");
  EXPECT_EQ(refusal(two("[2,4]"), 3),
            "header: 'b': data_offsets: ends at 4, the file has 3 bytes of tensors");
  EXPECT_EQ(refusal(two("[2,4]"), 5), "header: the tensors end at 4, the file has 5 bytes of them");
  EXPECT_EQ(refusal(entry("F32", "[1]", "[0,3]"), 3),
            "header: 't': data_offsets: span 3 bytes, but 'F32 [1]' is 4");
  EXPECT_EQ(refusal(entry("F4", "[3]", "[0,1]"), 1),
            "header: 't': shape: 'F4 [3]' has no whole number of bytes below 2^63");
  EXPECT_EQ(refusal(entry("U8", "[4294967296,4294967296]", "[0,0]"), 0),
            "header: 't': shape: 'U8 [4294967296, 4294967296]' has no whole number of bytes below "
            "2^63");
  EXPECT_EQ(refusal(entry("F64", "[2305843009213693952]", "[0,0]"), 0),
            "header: 't': shape: 'F64 [2305843009213693952]' has no whole number of bytes below "
            "2^63");
}

TEST(Safetensors, names_that_would_break_a_line_are_shown_escaped) {
  EXPECT_EQ(refusal(R"({"a\nb\u001b":1})", 0), "header: 'a\\x0ab\\x1b': is not an object");
  const std::string name(1000, 'n');
  EXPECT_EQ(refusal("{\"" + name + "\":1}", 0), "header: '" + std::string(60, 'n') + "..." +
                                                    std::string(60, 'n') + "': is not an object");
}

TEST(Safetensors, a_file_that_shrinks_meanwhile_is_an_error) {
  const Folder folder;
  const std::string path = folder / "x.safetensors";
  write_file(path, safetensors(entry("U8", "[8]", "[0,8]"), 8));
  const Result<Safetensors> file = Safetensors::open(path);
  ASSERT_FALSE(file.reason) << file.reason.text();
  ByteVector bytes(8);
  EXPECT_FALSE(file->read(file->tensors()[0], 0, bytes));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  const Reason reason = file->read(file->tensors()[0], 0, bytes);
  ASSERT_TRUE(reason);
  EXPECT_NE(reason.text().find("x.safetensors: byte "), std::string::npos) << reason.text();
  EXPECT_NE(reason.text().find("the file ends here"), std::string::npos) << reason.text();
}

TEST(Safetensors, what_is_no_file_is_named_and_not_waited_for) {
  const Folder folder;
  EXPECT_NE(Safetensors::open(folder / "none").reason.text().find("No such file"),
            std::string::npos);
  EXPECT_NE(Safetensors::open(folder.path()).reason.text().find("is a folder, expected a file"),
            std::string::npos);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(Safetensors::open(folder / "pipe").reason.text().find("is a pipe, expected a file"),
            std::string::npos);
  EXPECT_NE(Safetensors::open("/dev/zero").reason.text().find("is a device, expected a file"),
            std::string::npos);
  if (geteuid() != 0) {  // root reads everything
    write_file(folder / "closed", "x");
    chmod((folder / "closed").c_str(), 0);
    EXPECT_NE(Safetensors::open(folder / "closed").reason.text().find("Permission denied"),
              std::string::npos);
  }
}

TEST(Safetensors, every_element_type_has_its_name_and_size) {
  for (int number = 0; number <= static_cast<int>(Element::u64); ++number) {
    const auto element = static_cast<Element>(number);
    EXPECT_EQ(element_of(name(element)), element);
    EXPECT_EQ(bytes_of(element, {8}), bits(element));
  }
  EXPECT_EQ(name(Element::f8_e5m2fnuz), "F8_E5M2FNUZ");
  EXPECT_EQ(bits(Element::f6_e3m2), 6);
  EXPECT_EQ(element_of("f32"), std::nullopt);
}

}  // namespace
}  // namespace slicecheck::checkpoint
