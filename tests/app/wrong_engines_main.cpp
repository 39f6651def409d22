// The program as it is shipped, with engines that are wrong in one known way each: what a
// difference looks like from outside is tested with these. SLICECHECK_STREAMED names the engine
// that stands in the place of `streamed`.
#include <csignal>
#include <cstdlib>
#include <new>

#include "app/program.h"
#include "base/must.h"
#include "group/agree.h"
#include "group/forwarding.h"
#include "properties/law.h"

namespace {

using namespace slicecheck;
using engine::Engine;
using engine::EngineInput;
using experts::TpExperts;

/// The right tp experts, then one thing wrong.
template <typename Change>
Engine wrong(std::string_view name, Change change) {
  return {name, [change](const EngineInput& input, group::Group& group) {
            TpExperts tp = engine::collective(input, group);
            change(tp, input, group);
            return tp;
          }};
}

void one_byte(TpExperts& tp, const EngineInput&, group::Group& group) {
  if (group.rank() != 1) return;
  host_bytes(tp.w2)[3 * tp.w2.extents[1] * tp.w2.extents[2] + 5] ^= 0x40;
}

void other_expert(TpExperts& tp, const EngineInput&, group::Group&) {
  const MutableBytes bytes = host_bytes(tp.w13);
  const std::size_t each = bytes.size() / tp.num_experts;
  std::memcpy(bytes.data() + 2 * each, bytes.data() + 4 * each, each);
}

void scalars_misordered(TpExperts& tp, const EngineInput&, group::Group& group) {
  float* values = reinterpret_cast<float*>(tp.g2_alphas.data.get());
  if (group.rank() == 0) std::swap(values[0], values[1]);
}

void stock_changed(TpExperts&, const EngineInput& input, group::Group& group) {
  if (group.rank() == 2) input.stock.w2_sf.data.get()[7] ^= 1;
}

void gscale_changed(TpExperts&, const EngineInput& input, group::Group& group) {
  if (group.rank() == 0) input.stock.a2_gscale.data.get()[0] ^= 1;
}

/// Rows where channels are due: as many bytes, other extents.
void other_axis(TpExperts& tp, const EngineInput&, group::Group& group) {
  tp.w2.extents[1] /= group.size();
  tp.w2.extents[2] *= group.size();
}

void scalar_missing(TpExperts& tp, const EngineInput&, group::Group& group) {
  if (group.rank() == 2) --tp.g1_alphas.extents[0];
}

/// A kernel of rank 1 reads where nothing is.
void device_fault(TpExperts& tp, const EngineInput&, group::Group& group) {
  if (group.rank() != 1) return;
  memory::Space& space = group.space();
  space.compare(tp.w2.data.get(), tp.w2.data.get() + (std::int64_t{1} << 44), 1 << 20);
  space.synchronise();
}

void out_of_memory(TpExperts&, const EngineInput&, group::Group& group) {
  if (group.rank() == 1) throw std::bad_alloc();
}

void refused(TpExperts&, const EngineInput&, group::Group& group) {
  const Reason reason = group.rank() == 1
                            ? Reason("this engine does not like rank 1", "shape-unsupported")
                            : Reason();
  group::refuse_together(group, reason, "cannot go on");
}

/// Rank 1 gets a signal where the third exchange of a kind is due: the others are in it, or have
/// given it to their devices.
template <int signal>
class SignalledGroup final : public group::ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  void exchange(const std::vector<group::Exchange>& exchanges) override {
    const bool due = exchanges_ < 3;
    exchanges_ += std::ssize(exchanges);
    if (due && exchanges_ >= 3 && rank() == 1) std::raise(signal);
    inner().exchange(exchanges);
  }

 private:
  std::int64_t exchanges_ = 0;
};

template <int signal, TpExperts (*right)(const EngineInput&, group::Group&)>
Engine signalled(std::string_view name) {
  return {name, [](const EngineInput& input, group::Group& group) {
            SignalledGroup<signal> signalled(group);
            return right(input, signalled);
          }};
}

std::optional<Engine> engine_named(std::string_view name) {
  const char* streamed = std::getenv("SLICECHECK_STREAMED");
  if (name == "streamed" && streamed != nullptr) name = streamed;
  const Engine engines[] = {signalled<SIGSTOP, engine::collective>("stopped-collective"),
                            signalled<SIGKILL, engine::collective>("killed-collective"),
                            signalled<SIGSTOP, engine::streamed>("stopped-streamed"),
                            signalled<SIGKILL, engine::streamed>("killed-streamed"),
                            wrong("one-byte", one_byte),
                            wrong("other-expert", other_expert),
                            wrong("scalars-misordered", scalars_misordered),
                            wrong("stock-changed", stock_changed),
                            wrong("gscale-changed", gscale_changed),
                            wrong("other-axis", other_axis),
                            wrong("scalar-missing", scalar_missing),
                            wrong("device-fault", device_fault),
                            wrong("out-of-memory", out_of_memory),
                            wrong("refused", refused)};
  for (const Engine& engine : engines) {
    if (engine.name == name) return engine;
  }
  return engine::built_in(name);
}

}  // namespace

int main(int argc, char** argv) {
  const engine::Lookup engines = engine_named;
  return app::run(argc, argv, {engines, properties::Subject()});
}
