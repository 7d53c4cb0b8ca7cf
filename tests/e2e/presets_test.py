"""The presets and the plan language, scaled down, on the real binary and the real model: what each
varies is set and proved, what a target cannot do is left out with the reason, and each preset's own
summary is there."""
import json
import re
import shlex
import tomllib
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
PRESETS = ["quick", "layers", "prompt", "load", "kv"]
TIMEOUT_S = 110


def measured(report: dict) -> list[dict]:
    return [attempt for attempt in report["attempts"] if attempt.get("block") is not None]


def by_condition(report: dict) -> dict[str, dict]:
    return {attempt["condition"]: attempt for attempt in measured(report)}


def only(*names):
    return [word for name in names for word in ("--only", name)]


@pytest.fixture
def schema(run_rouse):
    return run_rouse("measure", "--print-schema").json()


def check(schema, toml_text):
    jsonschema.validate(tomllib.loads(toml_text), schema,
                        cls=jsonschema.validators.validator_for(schema))


def test_every_preset_is_valid_by_the_schema(run_rouse, schema, tmp_path):
    jsonschema.validators.validator_for(schema).check_schema(schema)
    unknown = run_rouse("measure", "--preset", "zzz")
    names = unknown.stderr.strip().rsplit("there are: ", 1)[1].split(", ")
    assert set(PRESETS) <= set(names)
    for preset in names:
        plan = run_rouse("measure", "--preset", preset, "--print-plan", "--path",
                         f"a={tmp_path}", "--path", f"b={tmp_path}")
        assert plan.status == 0, plan.stderr
        check(schema, plan.stdout)


def test_every_preset_can_be_read_and_scheduled_before_any_model_is_here(run_rouse, tmp_path):
    nothing = {"ROUSE_CACHE": str(tmp_path), "ROUSE_MODELS": "", "ROUSE_MODEL": ""}
    for preset in (*PRESETS, "storage", "idle", "verify"):
        plan = run_rouse("measure", "--preset", preset, "--print-plan", env=nothing)
        assert plan.status == 0 and plan.stderr == "", (preset, plan.stderr)
        assert tomllib.loads(plan.stdout)["experiment"]
        dry = run_rouse("measure", "--preset", preset, "--dry-run", env=nothing)
        assert dry.status == 0, (preset, dry.stderr)
        started = run_rouse("measure", "--preset", preset, env=nothing)
        assert started.status == 3 and "./dev run" in started.stderr, (preset, started.stderr)
        assert "-1 B" not in started.stderr, (preset, started.stderr)


def test_a_folder_that_is_gone_and_no_temporary_folder_are_no_crash(run_rouse, rouse, tmp_path):
    gone = tmp_path / "gone"
    for command in (["doctor"], ["measure", "--preset", "storage", "--print-plan"],
                    ["measure", "--preset", "quick", "--dry-run"], ["models"], ["list"]):
        gone.mkdir()
        answer = run_rouse("-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", gone, rouse,
                           *command, binary="/bin/sh", env={"TMPDIR": str(tmp_path / "none")})
        assert answer.status == 0, (command, answer.status, answer.stderr)


def test_every_plan_of_the_documents_is_valid_by_the_schema_and_by_the_parser(run_rouse, schema,
                                                                              tmp_path):
    plans = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL):
            if "[experiment]" not in block:
                continue
            check(schema, block)
            file = tmp_path / "plan.toml"
            file.write_text(block)
            answer = run_rouse("measure", file, "--dry-run")
            assert answer.status == 0, f"{page}: {answer.stderr}"
            plans += 1
    assert plans >= 2


def test_the_schema_has_exactly_the_keys_that_the_parser_names(run_rouse, schema, tmp_path):
    """An unknown key makes the parser list those that it knows."""
    sections = {
        "experiment": '[experiment]\nname = "x"\nzzz = 1\n',
        "target": '[experiment]\nname = "x"\n[target]\nzzz = 1\n',
        "condition": '[experiment]\nname = "x"\n[[condition]]\nname = "a"\nzzz = 1\n',
        "hypothesis": '[experiment]\nname = "x"\n[[condition]]\nname = "a"\n[[hypothesis]]\n'
                      'name = "h"\nzzz = 1\n',
    }
    documented = (ROOT / "docs" / "plan.md").read_text()
    for section, text in sections.items():
        file = tmp_path / f"{section}.toml"
        file.write_text(text)
        answer = run_rouse("measure", file)
        assert answer.status == 2
        known = answer.stderr.strip().rsplit("; expected ", 1)[1].split(", ")
        table = schema["properties"][section]
        properties = table.get("items", table)["properties"]
        assert known == list(properties)
        for key in known:
            assert f"`{key}`" in documented, f"docs/plan.md lacks {key}"
        with pytest.raises(jsonschema.ValidationError):
            check(schema, text)
    layers = schema["properties"]["condition"]["items"]["properties"]["state"]["properties"]
    for layer in layers:
        assert f"`{layer}`" in documented


@pytest.mark.parametrize("rest", [
    "repeat = 0\n", 'timeout = "10"\n', 'salt = "run"\n', '[target]\nkind = "bultin"\n',
    '[target]\nkind = "url"\n', '[target]\nurl = "http://x"\n',
    "[target]\npaths = { a = 3 }\n",
    '[[condition]]\nname = "a"\nstate = { model = "laoded" }\n',
    '[[condition]]\nname = "a"\nconcurrency = 0\n',
    '[[condition]]\nname = " a"\n',
])
def test_schema_and_parser_refuse_the_same(run_rouse, schema, tmp_path, rest):
    text = '[experiment]\nname = "x"\n' + rest
    if "[[condition]]" not in rest:
        text += '[[condition]]\nname = "warm"\n'
    file = tmp_path / "plan.toml"
    file.write_text(text)
    assert run_rouse("measure", file, "--dry-run").status == 2
    with pytest.raises(jsonschema.ValidationError):
        check(schema, text)


def test_a_dry_run_tells_how_states_are_set_and_which_effect_can_be_seen(run_rouse, database):
    unknown = run_rouse("measure", "--preset", "quick", "--dry-run").stdout
    assert "Smallest difference in TTFT" in unknown and "--spread 10%" in unknown
    assert "How they are brought about:" in unknown
    stated = run_rouse("measure", "--preset", "quick", "--dry-run", "--json", "--spread", "10%",
                       "--repeat", 20).json()
    ratios = [row["ratio"] for row in stated["smallest_effects"]]
    assert ratios == pytest.approx([0.09066] * 4, rel=1e-3)
    assert all(row["n"] == 20 for row in stated["smallest_effects"])
    states = {(row["condition"], row["layer"]): row for row in stated["states"]}
    assert states["page cache cold", "page_cache"]["value"] == "cold"
    assert "posix_fadvise" in states["page cache cold", "page_cache"]["set"]
    assert "cachestat" in states["page cache cold", "page_cache"]["proof"]
    assert run_rouse("measure", "--dry-run", "--spread", "ten").status == 2
    assert not database.exists()


def test_an_earlier_run_is_the_pilot_of_a_dry_run(run_rouse):
    arguments = ["measure", *only("warm", "prefix hit"), "--seed", 5]
    assert run_rouse(*arguments, "--repeat", 4, timeout=TIMEOUT_S).status == 0
    told = run_rouse(*arguments, "--repeat", 12, "--dry-run", "--json").json()
    effects = told["smallest_effects"]
    assert len(effects) == 1
    assert effects[0]["source"] == "run 1, 4 pairs"
    assert effects[0]["ns"] > 0 and effects[0]["ratio"] > 0


def test_layers_sets_and_proves_the_classic_contrasts(run_rouse):
    answer = run_rouse("measure", "--preset", "layers", "--repeat", 1, "--seed", 1, "--json",
                       *only("warm", "worker pinned", "long prompt", "process new",
                             "host memory only"), timeout=TIMEOUT_S)
    assert answer.status in (0, 1, 4), answer.stderr
    attempts = by_condition(answer.json())
    assert len(attempts) == 5
    for attempt in attempts.values():
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
    for name in ("worker pinned", "host memory only"):
        reading = attempts[name]["state_at_send"]["page_cache"]
        assert reading["wanted"] == "locked" and reading["reached"] is True
        assert "VmLck" in reading["proof"]
    assert attempts["host memory only"]["state_after"]["process"]["value"] == "new"
    assert attempts["host memory only"]["counters"]["target_read_bytes"] < 900_000
    long_prompt = attempts["long prompt"]
    assert abs(long_prompt["tokens"]["prompt"] - 512) <= 5
    assert long_prompt["state_after"]["prompt_tokens"]["reached"] is True
    work = {name: each["counters"]["target_cpu_ns"] for name, each in attempts.items()}
    assert work["long prompt"] > work["warm"]


def test_layers_says_what_it_leaves_out(run_rouse):
    answer = run_rouse("measure", "--preset", "layers", "--dry-run")
    assert 'left out condition "compile cache empty": ' in answer.stdout
    plan = run_rouse("measure", "--preset", "layers", "--print-plan").stdout
    assert '# name = "compile cache empty"' in plan
    told = run_rouse("measure", "--preset", "layers", "--dry-run", "--json").json()
    assert told["left_out"][0]["condition"] == "compile cache empty"
    refused = run_rouse("measure", "--preset", "layers", "--only", "compile cache empty")
    assert refused.status == 2 and "is left out on this target" in refused.stderr


def test_quick_adapts_to_a_server_given_by_its_url(run_rouse, start_server):
    server = start_server()
    answer = run_rouse("measure", "--target", server.url, "--repeat", 1, "--json",
                       timeout=TIMEOUT_S)
    assert answer.status == 0, answer.stderr
    assert 'left out condition "process new": ' in answer.stderr
    assert set(by_condition(answer.json())) == {"warm", "prefix hit"}


def test_prompt_fits_a_line_through_the_lengths(run_rouse):
    answer = run_rouse("measure", "--preset", "prompt", "--repeat", 2, "--seed", 3, "--json",
                       *only("128 tokens", "128 tokens, hit", "128 tokens, process new",
                             "512 tokens", "512 tokens, hit"), timeout=TIMEOUT_S)
    assert answer.status in (0, 1, 4), answer.stderr
    report = answer.json()
    for attempt in measured(report):
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
        wanted = int(attempt["condition"].split()[0])
        assert abs(attempt["tokens"]["prompt"] - wanted) <= max(4, wanted // 100)
        hit = attempt["condition"].endswith("hit")
        assert (attempt["tokens"]["cached"] > wanted / 2) == hit
    lines = {line["prefix_cache"]: line for line in report["prompt_summary"]["lines"]}
    assert lines["empty"]["tokens_per_second"] > 10
    assert [round(point["tokens"], -1) for point in lines["empty"]["points"]] == [130, 510]
    hit_slope = lines["hit"]["slope_ns_per_token"]["median"]
    assert hit_slope < lines["empty"]["slope_ns_per_token"]["median"] / 4
    cold = report["prompt_summary"]["cold_start"]
    assert cold["condition"] == "128 tokens, process new"
    # A start that costs nothing beside the noise is overtaken nowhere.
    if cold["added_ns"]["median"] > 0:
        assert cold["overtaken_at_tokens"] > 0
    else:
        assert cold["overtaken_at_tokens"] is None


def test_load_sends_bursts_and_keeps_another_model_busy(run_rouse):
    answer = run_rouse("measure", "--preset", "load", "--repeat", 2, "--seed", 3, "--json",
                       *only("alone", "4 at once", "other model busy"), timeout=TIMEOUT_S)
    assert answer.status in (0, 1, 4), answer.stderr
    report = answer.json()
    for attempt in measured(report):
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
    for attempt in measured(report):
        if attempt["condition"] == "other model busy":
            assert attempt["state_after"]["background"]["reached"] is True
            assert "answered" in attempt["state_after"]["background"]["detail"]
        if attempt["condition"] != "4 at once":
            continue
        assert attempt["state_after"]["concurrency"]["reached"] is True
        burst = attempt["burst"]
        places = [burst["place"], *(each["place"] for each in burst["companions"])]
        assert sorted(places) == [0, 1, 2, 3]
        assert all(each["outcome"] == "ok" for each in burst["companions"])
        # One engine thread answers them one after the other: each waits for those before it.
        times = {each["place"]: each["ttft_ns"] for each in burst["companions"]}
        times[burst["place"]] = attempt["ttft_ns"]
        assert max(times.values()) > 2 * min(times.values())
        assert attempt["counters"]["companions_ttft_max_ns"] == max(
            each["ttft_ns"] for each in burst["companions"])
    rows = {row["condition"]: row for row in report["load_summary"]["rows"]}
    assert rows["4 at once"]["burst_last_ns"] >= rows["4 at once"]["median_ns"]
    assert rows["4 at once"]["queue_share"] is not None
    assert rows["alone"]["to_base_ratio"] is None


@pytest.fixture
def short_kv(run_rouse, tmp_path) -> Path:
    """The preset kv with a shorter prompt and answer."""
    text = run_rouse("measure", "--preset", "kv", "--print-plan").stdout
    for key, before, after in (("prompt_tokens", 512, 128), ("max_tokens", 48, 8)):
        assert text.count(f"\n{key} = {before}\n") == 1
        text = text.replace(f"\n{key} = {before}\n", f"\n{key} = {after}\n")
    path = tmp_path / "kv.toml"
    path.write_text(text)
    return path


def test_kv_compares_the_greedy_answers_of_a_block(run_rouse, short_kv):
    answer = run_rouse("measure", short_kv, "--repeat", 1, "--seed", 3, "--json",
                       *only("plain, f16", "flash, f16", "flash, q4_0"), timeout=TIMEOUT_S)
    assert answer.status in (0, 1, 4), answer.stderr
    report = answer.json()
    attempts = by_condition(report)
    for name, attempt in attempts.items():
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
        assert attempt["state_after"]["target_args"]["reached"] is True
        assert attempt["answer"] and len(attempt["answer_sha256"]) == 64, name
    # 18 bytes for 32 numbers instead of 64.
    f16 = attempts["flash, f16"]["counters"]["target_kv_bytes"]
    q4_0 = attempts["flash, q4_0"]["counters"]["target_kv_bytes"]
    assert q4_0 == pytest.approx(f16 * 18 / 64, rel=0.02)
    # What the prefix takes when it is kept is its tokens' share of that.
    for attempt in attempts.values():
        counters = attempt["counters"]
        share = counters["target_kv_bytes"] * counters["target_prefix_tokens"] / 2048
        assert counters["target_prefix_bytes"] == pytest.approx(share, rel=0.05)
        assert counters["target_prefix_tokens"] >= 128
        assert "GET /state" in attempt["state_after"]["target_args"]["proof"]
    summary = report["kv_summary"]
    assert summary["reference"] == "plain, f16" and summary["same_prompts"]
    rows = {row["condition"]: row for row in summary["rows"]}
    for name in ("flash, f16", "flash, q4_0"):
        same = attempts[name]["answer"] == attempts["plain, f16"]["answer"]
        assert rows[name]["answers_compared"] == 1
        assert rows[name]["answers_changed"] == (0 if same else 1)


def test_a_path_is_loaded_from_a_copy_that_is_gone_afterwards(run_rouse, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    plan = tmp_path / "plan.toml"
    plan.write_text('[experiment]\nname = "paths"\nrepeat = 1\n[[condition]]\nname = "here"\n'
                    'state = { model = "unloaded", process = "new", page_cache = "cold" }\n'
                    '[[condition]]\nname = "there"\nbase = "here"\npath = "other"\n')
    missing = run_rouse("measure", plan)
    assert missing.status == 2 and "--path other=DIR" in missing.stderr
    answer = run_rouse("measure", plan, "--path", f"other={there}", "--json", timeout=TIMEOUT_S)
    assert answer.status == 0, answer.stderr
    attempts = by_condition(answer.json())
    for name, attempt in attempts.items():
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
        reading = attempt["state_after"]["path"]
        assert reading["reached"] is True
        assert (str(there) in reading["detail"]) == (name == "there")
        assert attempt["counters"]["target_read_bytes"] > 40_000_000
    assert list(there.iterdir()) == []
    for words in ("other", "other=relative", "=x", "a b=/x"):
        assert run_rouse("measure", plan, "--path", words).status == 2


def llama_target(llama_server) -> str:
    program = shlex.quote(str(llama_server))
    return f"cmd:{program} --host 127.0.0.1 --port {{port}} -m {{model}} -c 2048 -np 1 -t 1"


def test_layers_on_llama_server_started_by_rouse(run_rouse, llama_server):
    answer = run_rouse("measure", "--preset", "layers", "--target", llama_target(llama_server),
                       "--repeat", 1, "--json", "--seed", 2,
                       *only("warm", "long prompt", "process new", "page cache cold"),
                       timeout=TIMEOUT_S)
    assert answer.status in (0, 1, 4), answer.stderr
    report = answer.json()
    attempts = by_condition(report)
    for attempt in attempts.values():
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
    changed = {row["name"]: row.get("changed") for row in report["conditions"]}
    assert changed["process new"] == "model, process"
    assert abs(attempts["long prompt"]["tokens"]["prompt"] - 512) <= 5
    assert attempts["page cache cold"]["state_at_send"]["page_cache"]["value"] <= 0.01


def test_kv_on_llama_server_has_its_arguments_proved(run_rouse, llama_server, short_kv):
    answer = run_rouse("measure", short_kv, "--target", llama_target(llama_server),
                       "--repeat", 1, "--json", "--seed", 2, *only("flash, f16", "flash, q8_0"),
                       timeout=TIMEOUT_S)
    assert answer.status in (0, 1, 4), answer.stderr
    report = answer.json()
    for attempt in measured(report):
        assert attempt["outcome"] == "ok", attempt["outcome_detail"]
        assert json.loads(attempt["state_at_send"]["target_args"]["value"])[1] == "on"
        assert attempt["counters"]["target_kv_bytes"] is None  # this server does not tell
        assert attempt["counters"]["target_prefix_bytes"] is None
        assert "--slot-save-path" in attempt["null_reasons"]["target_prefix_bytes"]
    assert report["kv_summary"]["rows"][1]["answers_compared"] == 1


def test_kv_on_llama_server_tells_what_a_saved_prefix_takes(run_rouse, llama_server, tmp_path,
                                                            short_kv):
    slots = tmp_path / "slots"
    slots.mkdir()
    target = llama_target(llama_server) + f" --slot-save-path {slots}"
    answer = run_rouse("measure", short_kv, "--target", target, "--repeat", 1, "--json",
                       "--seed", 2, *only("flash, f16", "flash, q8_0"), timeout=TIMEOUT_S)
    assert answer.status in (0, 1, 4), answer.stderr
    rows = {row["condition"]: row for row in answer.json()["kv_summary"]["rows"]}
    per_token = {name: row["target_prefix_bytes"] / row["target_prefix_tokens"]
                 for name, row in rows.items()}
    # 30 layers of 3 heads with 64 keys and 64 values of 2 bytes, and a little beside.
    assert per_token["flash, f16"] == pytest.approx(30 * 3 * 128 * 2, rel=0.02)
    assert per_token["flash, q8_0"] == pytest.approx(30 * 3 * 128 * 34 / 32, rel=0.03)
    assert list(slots.iterdir()) == []
