// A dump folder's files, read one expert at a time: nothing larger than one expert's tensor is
// held. Types and extents are checked against the manifest when a file is opened.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "experts/convert.h"
#include "experts/experts.h"

namespace slicecheck::checkpoint {

/// Which kinds of files a dump folder holds, for all its ranks alike.
struct DumpParts {
  bool stock = false;
  bool tp = false;
  bool probe = false;
};

/// Refuses when: a kind is there for some ranks and not for all; a file is of a rank that the
/// manifest has not. The Reason names the file.
Result<DumpParts> dump_parts(const std::string& folder, const Manifest& manifest);

/// "FOLDER/stock.rankR.safetensors", and likewise.
std::string stock_path(const std::string& folder, std::int64_t rank);
std::string tp_path(const std::string& folder, std::int64_t rank);
std::string probe_path(const std::string& folder, std::int64_t rank);

/// The file of one of these paths of the folder.
/// Refuses when: it is a symbolic link that leaves the folder; it is no safetensors file.
Result<Safetensors> open_part(const std::string& folder, const std::string& path);

/// The per-expert scalars of one file, by experts::Scalar.
using DumpScalars = std::array<std::vector<float>, 3>;

/// stock.rankR.safetensors.
class DumpStock {
 public:
  /// Refuses when: a tensor is missing, or has another type or extents than the manifest says;
  /// `first_expert` is no whole number; a gscale is not [1], nor [Er] or [E] of equal bits. Causes:
  /// scale-missing, scale-extent-mismatch where they fit.
  static Result<DumpStock> open(const std::string& folder, const Manifest& manifest,
                                std::int64_t rank);

  std::int64_t first_expert() const { return first_expert_; }
  const DumpScalars& scalars() const { return scalars_; }
  float a1_gscale() const { return a1_gscale_; }
  float a2_gscale() const { return a2_gscale_; }

  /// The bytes of local expert `local`.
  Result<ByteVector> bytes(layout::Kind kind, std::int64_t local) const;
  /// All four tensors of it.
  Result<experts::ConvertedExpert> expert(std::int64_t local, const layout::Widths& widths) const;

 private:
  std::optional<Safetensors> file_;
  DumpScalars scalars_;
  std::int64_t first_expert_ = 0;
  float a1_gscale_ = 0;
  float a2_gscale_ = 0;
};

/// tp.rankR.safetensors.
class DumpTp {
 public:
  /// Refuses when: as DumpStock; or the metadata (where it is there) says another I' or E. A tensor
  /// cut along the other axis, or not cut, is no reason: see otherwise_cut().
  static Result<DumpTp> open(const std::string& folder, const Manifest& manifest,
                             std::int64_t rank);

  const DumpScalars& scalars() const { return scalars_; }

  /// True where the tensor's extents are those of a cut along the other axis, or of no cut: there
  /// are no bytes to compare.
  bool otherwise_cut(layout::Kind kind) const {
    return otherwise_cut_[static_cast<std::size_t>(kind)];
  }
  /// "U8 [E, a, b]", of the tensor as it stands in the file.
  std::string extents(layout::Kind kind) const;

  /// The bytes of expert `expert`.
  Result<ByteVector> bytes(layout::Kind kind, std::int64_t expert) const;

 private:
  std::optional<Safetensors> file_;
  DumpScalars scalars_;
  std::array<bool, 4> otherwise_cut_{};
};

}  // namespace slicecheck::checkpoint
