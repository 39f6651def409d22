"""The probes of the main job: which ones run, what they say, and that controls decide whether they
count. Healthy experts pass; they are never inconclusive."""

import program

CHECKPOINTS = program.ROOT / "golden/checkpoints"
LAYERS = (
    ("tiny-modelopt", 1),
    ("tiny-modelopt", 2),
    ("tiny-compressed-tensors", 1),
    ("tiny-fused", 2),
)


def by_id(report):
    return {check["id"]: check for check in report["checks"]}


class Probes(program.ProgramTest):
    def kinds(self, ended):
        self.assert_passed(ended)
        for check in ended.report["checks"]:
            if check["id"].startswith(("probe.", "control.")):
                self.assertEqual(check["status"], "passed", check)
                self.assertGreater(check["compared"], 0)
        return [probe["kind"] for probe in ended.report["probes"]]

    def test_a_payload_run_has_an_exact_probe_that_is_0_and_its_controls(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                ended = self.mpi(ranks, "reshard")
                self.assertEqual(self.kinds(ended), ["exact"])
                self.assertEqual(ended.report["probes"][0]["rel_l2"], 0)
                self.assertEqual(ended.report["probes"][0]["bound"], 0)
                controls = [i for i in by_id(ended.report) if i.startswith("control.")]
                self.assertEqual(controls, ["control.exact.w2_sf", "control.exact.w13"])

    def test_every_checkpoint_passes_its_random_probe_and_the_exact_one(self):
        for name, layer in LAYERS:
            for ranks in (2, 3):
                with self.subTest(checkpoint=name, layer=layer, ranks=ranks):
                    folder = str(CHECKPOINTS / name)
                    where = ("reshard", "--checkpoint", folder, "--layer", str(layer))
                    ended = self.local(ranks, *where)
                    self.assertEqual(self.kinds(ended), ["random"])
                    probe = ended.report["probes"][0]
                    self.assertLess(probe["rel_l2"], 1.2 * probe["floor"])
                    self.assertGreater(probe["rel_l2"], 0.8 * probe["floor"])
                    ended = self.local(ranks, *where, "--probe", "both")
                    self.assertEqual(self.kinds(ended), ["random", "exact"])

    def test_probes_can_be_chosen_and_are_the_same_on_threads_and_processes(self):
        for payload in ("bytes", "numeric", "exact"):
            with self.subTest(payload=payload):
                chosen = ("reshard", "--payload", payload, "--probe", "both", "--seed", "5")
                threads = self.local(2, *chosen)
                self.assertEqual(self.kinds(threads), ["random", "exact"])
                processes = self.mpi(2, *chosen)
                self.assertEqual(processes.report["probes"], threads.report["probes"])
        ended = self.local(2, "reshard", "--probe", "none")
        self.assertEqual(self.kinds(ended), [])
        self.assertNotIn("probe.routes", by_id(ended.report))

    def test_models_pass_with_16_experts(self):
        for model in ("qwen3-30b", "qwen3-next-80b"):
            with self.subTest(model=model):
                ended = self.local(2, "reshard", "--model", model, "--experts", "16")
                self.assertEqual(self.kinds(ended), ["exact"])

    def test_groups_are_probed_apart_and_name_their_own(self):
        ended = self.mpi(4, "reshard", "--tp", "2")
        self.assertEqual(self.kinds(ended), ["exact", "exact"])
        self.assertEqual([probe["group"] for probe in ended.report["probes"]], [0, 1])

    def test_tokens_are_raised_until_every_expert_has_its_routes(self):
        few = ("reshard", "--experts", "12", "--probe", "both", "--tokens", "1", "--top-k", "3")
        checks = by_id(self.local(2, *few).report)
        self.assertEqual(checks["probe.random"]["figures"]["tokens"], 4)
        self.assertEqual(checks["probe.exact"]["figures"]["tokens"], 16)
        self.assertEqual(checks["probe.routes"]["compared"], 12 + 48)

    def test_a_bound_below_the_roundings_fails_and_names_the_worst(self):
        ended = self.local(2, "reshard", "--probe", "random", "--rel-l2-max", "0.001")
        self.assertEqual(ended.code, 1)
        self.assertEqual([f["cause"] for f in ended.report["findings"]], ["rel-l2-above-bound"])
        finding = ended.report["findings"][0]
        self.assertEqual(finding["side"], "probe")
        for part in ("bound 0.001 (given)", "worst expert", "worst route (token"):
            self.assertIn(part, finding["text"])

    def test_a_bound_that_no_damage_exceeds_is_inconclusive(self):
        ended = self.local(2, "reshard", "--probe", "random", "--rel-l2-max", "1000")
        self.assertEqual(ended.code, 6)
        self.assertEqual(ended.report["verdict"], "inconclusive")
        checks = by_id(ended.report)
        self.assertEqual(checks["probe.random"]["status"], "passed")
        self.assertEqual(checks["control.random.w2_sf"]["status"], "failed")
        self.assertEqual(checks["control.random.w13"]["status"], "failed")

    def test_more_routes_than_experts_are_unusable(self):
        ended = self.local(2, "reshard", "--top-k", "5")
        self.assertEqual(ended.code, 2)
        self.assertEqual(len(ended.own_lines()), 1)
        self.assertIn("--top-k 5 is more than the 4 experts", ended.own_lines()[0])


if __name__ == "__main__":
    program.main()
