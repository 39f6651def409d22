// The smallest case in full, byte for byte: golden/e2-*.safetensors, made by code that is not ours.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "experts/payload.h"
#include "experts/place.h"

namespace slicecheck::experts {
namespace {

using layout::Kind;

constexpr layout::Shape shape{2, 128, 128, 2};
constexpr std::int64_t first_seed = 1;

// A safetensors file as it stands: the tests of `checkpoint` are about reading it well.
class File {
 public:
  explicit File(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    const auto header = load<std::uint64_t>(bytes_.data());
    header_ = nlohmann::json::parse(bytes_.begin() + 8, bytes_.begin() + 8 + header);
    data_ = 8 + header;
  }

  Bytes of(const std::string& name) {
    const auto range = header_.at(name).at("data_offsets").get<std::array<std::size_t, 2>>();
    ++read_;
    return Bytes(bytes_).subspan(data_ + range[0], range[1] - range[0]);
  }

  std::size_t tensors() const { return header_.size(); }
  std::size_t read() const { return read_; }

 private:
  ByteVector bytes_;
  nlohmann::json header_;
  std::size_t data_ = 0;
  std::size_t read_ = 0;
};

bool same(Bytes a, Bytes b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

class GoldenBytes : public testing::TestWithParam<layout::PayloadKind> {
 protected:
  layout::Payload payload() const { return {GetParam(), first_seed, 0}; }
  File file() const {
    return File(SLICECHECK_SOURCE_DIR "/golden/e2-h128-i128-tp2-seed1-" +
                std::string(layout::name(GetParam())) + ".safetensors");
  }
};

TEST_P(GoldenBytes, plain_converted_and_tp_are_the_file) {
  File file = this->file();
  std::vector<PlainExpert> plain;
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    plain.push_back(payload_expert(payload(), e, layout::stock_widths(shape)));
  }
  for (const layout::Projection each : layout::projections) {
    ByteVector weight;
    ByteVector scale;
    for (const PlainExpert& expert : plain) {
      const PlainProjection& mine = projection_of(expert, each);
      weight.insert(weight.end(), mine.weight.begin(), mine.weight.end());
      scale.insert(scale.end(), mine.scale.begin(), mine.scale.end());
    }
    const std::string name = "checkpoint/" + std::string(layout::name(each));
    EXPECT_TRUE(same(weight, file.of(name + ".weight"))) << name;
    EXPECT_TRUE(same(scale, file.of(name + ".scale"))) << name;
  }
  for (const Kind kind : layout::kinds) {
    const std::string name(layout::name(kind));
    ByteVector all;
    for (const PlainExpert& expert : plain) {
      const ByteVector bytes = bytes_of(converted(expert), kind);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    EXPECT_TRUE(same(all, file.of("converted/" + name))) << name;
    for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
      const TpExperts tp = payload_tp(payload(), shape, rank);
      EXPECT_TRUE(
          same(host_bytes(tensor_of(tp, kind)), file.of("tp/" + std::to_string(rank) + "/" + name)))
          << name << " of rank " << rank;
    }
  }
  EXPECT_EQ(file.read(), file.tensors()) << "a tensor of the file was not compared";
}

TEST_P(GoldenBytes, the_cut_of_the_file_s_converted_experts_is_its_tp) {
  File file = this->file();
  for (const Kind kind : layout::kinds) {
    const std::string name(layout::name(kind));
    const Bytes whole = file.of("converted/" + name);
    const std::int64_t each = layout::matrix(kind, layout::stock_widths(shape)).bytes();
    for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
      ByteVector cut;
      for (std::int64_t e = 0; e < shape.experts; ++e) {
        ConvertedExpert expert;
        expert.widths = layout::stock_widths(shape);
        for (const Kind other : layout::kinds) {
          bytes_of(expert, other)
              .resize(layout::matrix(other, layout::stock_widths(shape)).bytes());
        }
        const Bytes mine = whole.subspan(e * each, each);
        bytes_of(expert, kind).assign(mine.begin(), mine.end());
        const ByteVector part = bytes_of(slice(expert, shape.tp, rank), kind);
        cut.insert(cut.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same(cut, file.of("tp/" + std::to_string(rank) + "/" + name))) << name;
    }
  }
}

std::string payload_name(const testing::TestParamInfo<layout::PayloadKind>& made) {
  return std::string(layout::name(made.param));
}

INSTANTIATE_TEST_SUITE_P(Payloads, GoldenBytes,
                         testing::Values(layout::PayloadKind::bytes, layout::PayloadKind::numeric,
                                         layout::PayloadKind::exact),
                         payload_name);

}  // namespace
}  // namespace slicecheck::experts
