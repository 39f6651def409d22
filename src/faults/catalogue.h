// What the catalogue of mutants is made with: the shapes and payloads, and its chapters.
#pragma once

#include "faults/layout_faults.h"
#include "faults/mutants.h"
#include "faults/scalar_faults.h"

namespace slicecheck::faults {

inline constexpr layout::Shape t1{6, 640, 384, 3};
inline constexpr layout::Shape t2{6, 384, 640, 2};
inline constexpr layout::Shape t3{8, 384, 1024, 4};  // more ranks, even rows
inline constexpr layout::Payload bytes_payload{layout::PayloadKind::bytes, 1, 0};
inline constexpr layout::Payload numeric_payload{layout::PayloadKind::numeric, 1, 0};

/// A finding of `cause` at the tensors, experts and ranks of `where`.
Expected expected(std::string cause, const Where& where);

/// Collects the mutants, kind by kind.
class Catalogue {
 public:
  explicit Catalogue(bool full) : full_(full) {}

  std::vector<Mutant> made() {
    add_layout();
    add_bytes();
    add_scales();
    add_padding();
    add_placement();
    add_scalars();
    add_pairs();
    return std::move(made_);
  }

 private:
  void add(std::string_view fault, const layout::Shape& shape, const layout::Payload& payload,
           const Where& where, std::function<void(Layer&)> plant, std::vector<Expected> due);
  void add_layout();
  void add_layout(const LayoutEntry& entry, const layout::Shape& shape,
                  const layout::Payload& payload, const Where& where);
  void add_bytes();
  void add_whole_payloads(const layout::Shape& shape);
  void add_scales();
  void add_padding();
  void add_placement();
  void add_scalars();
  void add_scalar(std::string_view fault, const ScalarWhere& where,
                  const std::function<void(Layer&, const ScalarWhere&)>& plant,
                  const std::string& cause, bool warning = false);
  void add_pairs();
  std::vector<Where> patterns(const layout::Shape& shape, Side side) const;

  bool full_;
  std::vector<Mutant> made_;
};

}  // namespace slicecheck::faults
