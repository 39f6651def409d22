// Folders: indexes, shards, links; and the patterns of ignore lists.
#include "folder.h"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/dump_files.h"
#include "checkpoint/names.h"
#include "checkpoint/pattern.h"

namespace slicecheck::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view one = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";

// Why the tensor `t` is not found in the folder; "" where it is.
std::string lookup(const Folder& folder) {
  Result<Shards> shards = Shards::open(folder.path());
  if (shards.reason) return shards.reason.text();
  return shards->find("t").reason ? shards->find("t").reason.text() : "";
}

std::string index_of(std::string_view file) {
  return R"({"metadata":{"total_size":1},"weight_map":{"t":")" + std::string(file) + "\"}}";
}

TEST(Shards, an_index_names_files_inside_its_folder) {
  const Folder folder;
  const Folder other;
  const std::string index = folder / "model.safetensors.index.json";
  write_file(other / "x.safetensors", safetensors(one, 1));
  fs::create_directory(folder / "sub");
  write_file(folder / "sub/x.safetensors", safetensors(one, 1));
  write_file(index, index_of("sub/x.safetensors"));
  EXPECT_EQ(lookup(folder), "");
  for (const std::string& file : {other / "x.safetensors", std::string("sub/../sub/x.safetensors"),
                                  std::string("../x.safetensors"), std::string("")}) {
    write_file(index, index_of(file));
    EXPECT_NE(lookup(folder).find("is no name of a file inside the folder"), std::string::npos)
        << file;
  }
  fs::create_symlink(other / "x.safetensors", folder / "out.safetensors");
  write_file(index, index_of("out.safetensors"));
  EXPECT_NE(lookup(folder).find("is a symbolic link that leaves the folder"), std::string::npos);
  fs::create_symlink(other.path(), folder / "door");
  write_file(index, index_of("door/x.safetensors"));
  EXPECT_NE(lookup(folder).find("is a symbolic link that leaves the folder"), std::string::npos);
  fs::create_symlink("sub/x.safetensors", folder / "in.safetensors");
  write_file(index, index_of("in.safetensors"));
  EXPECT_EQ(lookup(folder), "");
  const Folder outer;
  fs::create_directory_symlink(folder.path(), outer / "link");
  EXPECT_FALSE(Shards::open(outer / "link").reason);
  // A folder beside whose name begins alike is outside.
  fs::create_directory(outer / "a");
  fs::create_directory(outer / "ab");
  write_file(outer / "ab/x.safetensors", safetensors(one, 1));
  fs::create_symlink("../ab/x.safetensors", outer / "a/x.safetensors");
  EXPECT_TRUE(outside(outer / "a", "x.safetensors"));
}

TEST(Shards, a_missing_tensor_is_named_where_it_would_have_stood) {
  const Folder folder;
  constexpr std::string_view other = R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  write_file(folder / "model.safetensors", safetensors(other, 1));
  EXPECT_NE(lookup(folder).find("/model.safetensors: header: 't': is missing"), std::string::npos);
  write_file(folder / "model.safetensors.index.json", R"({"weight_map":{}})");
  EXPECT_NE(lookup(folder).find("/model.safetensors.index.json: weight_map: 't': is missing"),
            std::string::npos);
}

TEST(Shards, a_wrong_index_is_named) {
  const Folder folder;
  const auto refusal = [&folder](std::string_view text) {
    write_file(folder / "model.safetensors.index.json", text);
    const std::string got = lookup(folder);
    const std::string file = "model.safetensors.index.json: ";
    return got.find(file) == std::string::npos ? got : got.substr(got.find(file) + file.size());
  };
  EXPECT_EQ(refusal(""), "not JSON at byte 1");
  EXPECT_EQ(refusal("[]"), "is not an object");
  EXPECT_EQ(refusal("7"), "is not an object");
  EXPECT_EQ(refusal("{}"), "weight_map: is missing");
  EXPECT_EQ(refusal(R"({"metadata":{"weight_map":{"t":"x"}}})"), "weight_map: is missing");
  EXPECT_EQ(refusal(R"({"weight_map":7})"), "weight_map: is not an object");
  EXPECT_EQ(refusal(R"({"weight_map":[]})"), "weight_map: is not an object");
  EXPECT_EQ(refusal(R"({"weight_map":{"t":7}})"), "weight_map: 't': is not a string");
  EXPECT_EQ(refusal(R"({"weight_map":{"t":{}}})"), "weight_map: 't': is not a string");
  EXPECT_EQ(refusal(R"({"weight_map":{"t":"a","t":"b"}})"), "key 't' stands twice in one object");
  EXPECT_NE(refusal(index_of("x.safetensors")).find("x.safetensors: cannot be opened"),
            std::string::npos);
  write_file(folder / "x.safetensors", safetensors("{}", 0));
  EXPECT_NE(refusal(index_of("x.safetensors")).find("'t' is missing, the index has it here"),
            std::string::npos);
  fs::remove(folder / "model.safetensors.index.json");
  fs::create_directory(folder / "model.safetensors.index.json");
  EXPECT_NE(lookup(folder).find("is a folder, expected a file"), std::string::npos);
}

TEST(Shards, without_an_index_every_file_of_the_folder_counts) {
  const Folder folder;
  EXPECT_NE(lookup(folder).find("holds no .safetensors file"), std::string::npos);
  write_file(folder / "b.safetensors", safetensors(one, 1));
  write_file(folder / "a.safetensors",
             safetensors(R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  EXPECT_EQ(lookup(folder), "");
  write_file(folder / "c.safetensors", safetensors(one, 1));
  EXPECT_NE(lookup(folder).find("'t' stands in 'b.safetensors' too"), std::string::npos);
  write_file(folder / "model.safetensors", safetensors(one, 1));
  EXPECT_EQ(lookup(folder), "");  // the single file, and no other beside it
  EXPECT_NE(Shards::open(folder / "none").reason.text().find("no such folder"), std::string::npos);
  EXPECT_NE(Shards::open(folder / "model.safetensors").reason.text().find("is not a folder"),
            std::string::npos);
}

TEST(Checkpoint, a_layer_without_experts_is_said_to_have_none) {
  Result<Checkpoint> checkpoint = Checkpoint::open(golden("checkpoints/tiny-modelopt"));
  ASSERT_FALSE(checkpoint.reason) << checkpoint.reason.text();
  const Result<Layer> layer = checkpoint->layer(0);
  EXPECT_EQ(layer.reason.text(), "checkpoints/tiny-modelopt: layer 0: holds no routed experts");
  EXPECT_EQ(ending(layer.reason), Ending::unusable);
}

TEST(Names, a_root_ends_with_the_segment_experts_behind_a_numbered_layer) {
  EXPECT_EQ(experts_root("a.layers.12.mlp.experts.3.up_proj.weight")->name,
            "a.layers.12.mlp.experts");
  EXPECT_EQ(experts_root("a.layers.12.mlp.experts.3.up_proj.weight")->layer, 12);
  EXPECT_EQ(experts_root("layers.0.experts.gate_up_proj")->name, "layers.0.experts");
  for (const std::string_view tensor :
       {"", "layers.", "layers.1", "layers.1.", "layers.x.experts.0", "layers.-1.experts.0",
        "layers.1.shared_experts.gate_proj", "mylayers.1.experts.0", "layers.1experts.0",
        "layers.99999999999999999999.experts.0", "layers.1.experts"}) {
    EXPECT_FALSE(experts_root(tensor)) << tensor;
  }
}

TEST(Pattern, shell_wildcards_match_the_whole_name) {
  const auto matches = [](std::string_view pattern, std::string_view text) {
    return Pattern::wildcard(pattern).matches(text);
  };
  EXPECT_TRUE(matches("a", "a"));
  EXPECT_FALSE(matches("a", "ab"));
  EXPECT_FALSE(matches("a", "b"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*norm*", "model.norm"));
  EXPECT_FALSE(matches("*norm*", "model.nor"));
  EXPECT_TRUE(matches("a?c", "abc"));
  EXPECT_TRUE(matches("layers.[0-2].*", "layers.1.x"));
  EXPECT_FALSE(matches("layers.[!0-2].*", "layers.1.x"));
  EXPECT_TRUE(matches("a.b", "a.b"));
  EXPECT_FALSE(matches("a.b", "axb"));
  EXPECT_TRUE(matches("[x", "[x"));
  EXPECT_TRUE(matches("[]x]", "]"));
}

TEST(Pattern, expressions_match_at_the_begin) {
  const auto matches = [](std::string_view pattern, std::string_view text) {
    const std::optional<Pattern> made = Pattern::expression(pattern);
    EXPECT_TRUE(made) << pattern;
    return made && made->matches(text);
  };
  EXPECT_TRUE(matches("", "x"));
  EXPECT_TRUE(matches("ab", "abc"));
  EXPECT_FALSE(matches("ab$", "abc"));
  EXPECT_FALSE(matches("b", "abc"));
  EXPECT_TRUE(matches(".*mlp[.]gate$", "model.layers.1.mlp.gate"));
  EXPECT_FALSE(matches(".*mlp.gate$", "model.layers.1.mlp.gate_proj"));
  EXPECT_TRUE(matches(R"(model\.layers\.(0|1|2)\..*)", "model.layers.2.x"));
  EXPECT_FALSE(matches(R"(model\.layers\.(0|1|2)\..*)", "model.layers.3.x"));
  EXPECT_FALSE(matches(R"(a\.b)", "axb"));
  EXPECT_TRUE(matches(R"(layers\.\d+\.mlp)", "layers.61.mlp"));
  EXPECT_TRUE(matches("(?:ab)+c", "ababc"));
  EXPECT_FALSE(matches("(?:ab)+c", "c"));
  EXPECT_TRUE(matches("(ab)?c", "c"));
  EXPECT_TRUE(matches("a{2}b", "aab"));
  EXPECT_FALSE(matches("a{2}b$", "aaab"));
  EXPECT_TRUE(matches("a{1,3}b", "aaab"));
  EXPECT_FALSE(matches("a{1,3}b", "aaaab"));
  EXPECT_TRUE(matches("a{2,}b", "aaaaab"));
  EXPECT_FALSE(matches("a{2,}b", "ab"));
  EXPECT_TRUE(matches("^[^.]+[.]x", "abc.x"));
  EXPECT_TRUE(matches("a|b|cd$", "cd"));
  EXPECT_TRUE(matches("a*?b", "aab"));
  for (const std::string_view wrong :
       {"(", ")", "a)", "[a", "*a", "(?=a)", "(?!a)", "\\", "\\1", "a{1000}", "a{2,1}", "a{x}"}) {
    EXPECT_FALSE(Pattern::expression(wrong)) << wrong;
  }
}

TEST(Pattern, no_expression_is_slow) {
  // Backtracking would need 2^60 steps here.
  const std::optional<Pattern> pattern = Pattern::expression("(a|a|a*)*b");
  ASSERT_TRUE(pattern);
  EXPECT_FALSE(pattern->matches(std::string(60, 'a')));
  EXPECT_FALSE(Pattern::expression(std::string(900, '(')));
  EXPECT_FALSE(Pattern::expression("((((a{99}){99}){99}){99}){99}"));
}

TEST(DumpParts, a_world_that_no_folder_holds_costs_what_the_folder_costs) {
  const Folder folder;
  write_file(folder / "tp.rank0.safetensors", safetensors(one, 1));
  write_file(folder / "tp.rank2.safetensors", safetensors(one, 1));
  Manifest manifest;
  manifest.world = std::int64_t{1} << 40;
  const std::clock_t begun = std::clock();
  const Result<DumpParts> parts = dump_parts(folder.path(), manifest);
  ASSERT_TRUE(parts.reason);
  EXPECT_NE(parts.reason.text().find("/tp.rank1.safetensors: is missing"), std::string::npos)
      << parts.reason.text();
  EXPECT_LT(std::clock() - begun, CLOCKS_PER_SEC);
  manifest.world = 3;
  write_file(folder / "tp.rank1.safetensors", safetensors(one, 1));
  EXPECT_FALSE(dump_parts(folder.path(), manifest).reason);
  manifest.world = 2;
  EXPECT_NE(dump_parts(folder.path(), manifest).reason.text().find("tp.rank2"), std::string::npos);
}

}  // namespace
}  // namespace slicecheck::checkpoint
