//! `corprof diff`: what it says and how it ends; `tests/e2e` compares real programs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use profile::{Aggregate, Period, Values};
use serde_json::Value;
use support::made::made;
use support::{Dir, MS, add_samples, profile_bytes};

/// A profile of so many samples of 10 ms in `Shop.Slow()` and in `Shop.Fast()`, and of requests.
fn bytes(slow: u64, fast: u64, requests: u64) -> Vec<u8> {
    let mut aggregate = Aggregate::default();
    for (name, count) in [("Shop.Slow()", slow), ("Shop.Fast()", fast)] {
        let values = Values { count, cpu_ns: count * 10 * MS, ..Values::default() };
        add_samples(&mut aggregate, name, None, values);
    }
    (0..requests).for_each(|_| aggregate.request("GET /", MS));
    let profile = aggregate.take(Period::default()).profile;
    profile::pprof::write(&profile, Vec::new()).unwrap()
}

#[test]
fn what_became_more_expensive_comes_first_and_can_fail_a_build() {
    let dir = Dir::new();
    dir.write("base.pb.gz", &bytes(400, 600, 0));
    dir.write("new.pb.gz", &bytes(600, 400, 0));
    let ran = dir.run(&["diff", "base.pb.gz", "new.pb.gz"]);
    ran.check(0, &[]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[1].contains("40.00 %  60.00 %  +20.00 % ±"), "{}", ran.out);
    assert!(lines[1].ends_with("Shop.Slow()") && lines[2].contains("-20.00 % ±"), "{}", ran.out);
    assert!(ran.out.contains("others    0 rows differ by no more than chance may"), "{}", ran.out);
    for (limit, code, word) in [
        (">10%", 3, "became more expensive by more: Shop.Slow()"),
        ("> 25 %", 0, "no share of a function grew by so much"),
    ] {
        let ran = dir.run(&["diff", "base.pb.gz", "new.pb.gz", "--fail-if", limit]);
        ran.check(code, &[]);
        assert!(ran.out.contains(word), "{}", ran.out);
    }
    let ran = dir.run(&["diff", "base.pb.gz", "base.pb.gz", "--fail-if", ">0%"]);
    ran.check(0, &[]);
    assert!(
        ran.out.starts_with("no share of a function differs by more than chance\n"),
        "{}",
        ran.out
    );
}

#[test]
fn requests_decide_where_they_are_known() {
    let dir = Dir::new();
    // Twice the requests at the same cost: nothing changed but the load.
    dir.write("base.pb.gz", &bytes(400, 600, 100));
    dir.write("new.pb.gz", &bytes(800, 1200, 200));
    let ran = dir.run(&["diff", "base.pb.gz", "new.pb.gz", "--json", "--fail-if", ">1%"]);
    ran.check(0, &[]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["measure"], "ns_per_request");
    assert_eq!(told["failing"], serde_json::json!([]));
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["ns_per_request"]["change"] == 0.0), "{}", ran.out);
    // Twice the cost of a request at the same shares.
    dir.write("dear.pb.gz", &bytes(800, 1200, 100));
    let ran = dir.run(&["diff", "base.pb.gz", "dear.pb.gz", "--fail-if", ">50%"]);
    ran.check(3, &[]);
    assert!(ran.out.contains("by more: [everything], Shop.Fast()"), "{}", ran.out);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert!(
        words.join(" ").contains("100 ms 200 ms +100 ms ±11.2 ms - - - [everything]"),
        "{}",
        ran.out
    );
}

/// Also where time was charged without a sample of its own, or a sample had no time.
#[test]
fn samples_are_counted_as_by_top() {
    let dir = Dir::new();
    let mut profile = made(5, 200);
    for (at, sample) in profile.samples.iter_mut().enumerate() {
        match at % 8 {
            0 => sample.values.count = 0,
            1 => (sample.values.count, sample.values.cpu_ns) = (3, 0),
            _ => {}
        }
    }
    dir.write("a.pb.gz", &profile::pprof::write(&profile, Vec::new()).unwrap());
    let json =
        |arguments: &[&str]| -> Value { serde_json::from_str(&dir.run(arguments).out).unwrap() };
    let counted = json(&["top", "a.pb.gz", "--json"])["total"]["samples"].clone();
    let compared = json(&["diff", "a.pb.gz", "a.pb.gz", "--json"]);
    assert!(counted.as_u64() > Some(100), "{counted}");
    assert_eq!([&compared["base"]["samples"], &compared["new"]["samples"]], [&counted; 2]);
    let text = dir.run(&["diff", "a.pb.gz", "a.pb.gz"]).out;
    assert!(text.contains(&format!("{counted} samples of 1 file")), "{text}");
}

/// The same as `bytes`, as a file of that period of that process.
fn of_process(instance: &str, seq: u64, [slow, fast, requests]: [u64; 3]) -> Vec<u8> {
    let mut profile = profile::read::decode(&bytes(slow, fast, requests)).unwrap().profile;
    let instance = instance.to_owned();
    profile.report = Some(profile::SelfReport { instance, seq, ..profile::SelfReport::default() });
    profile::pprof::write(&profile, Vec::new()).unwrap()
}

#[test]
fn files_of_one_process_are_one_run() {
    let dir = Dir::new();
    // A start that costs much, and requests whose cost has doubled: periods of a run are no
    // repetitions of each other.
    let periods = |factor: u64| {
        let later = [1, 2, 3, 4].map(|more| [200 * factor + more, 300, 100]);
        std::iter::once([2_000, 900, 10]).chain(later)
    };
    for (side, factor) in [("base", 1), ("new", 2)] {
        for (seq, numbers) in periods(factor).enumerate() {
            dir.write(
                &format!("{side}/shop_7_{seq}.pb.gz"),
                &of_process(side, seq as u64, numbers),
            );
            let other = format!("{side}-{seq}");
            dir.write(&format!("{side}-runs/{seq}.pb.gz"), &of_process(&other, 0, numbers));
        }
        let whole = periods(factor).reduce(|a, b| [0, 1, 2].map(|at| a[at] + b[at])).unwrap();
        dir.write(&format!("{side}.pb.gz"), &of_process(side, 0, whole));
    }
    let told = |sides: [&str; 2], code| {
        let ran = dir.run(&["diff", sides[0], sides[1], "--json", "--fail-if", ">10%"]);
        ran.check(code, &[]);
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    let (folders, files) = (told(["base", "new"], 3), told(["base.pb.gz", "new.pb.gz"], 3));
    let slow = |told: &Value| {
        let rows = told["rows"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == "Shop.Slow()").unwrap()["ns_per_request"].clone()
    };
    assert_eq!(slow(&folders)["change"], slow(&files)["change"]);
    let widths = [&folders, &files].map(|told| slow(told)["half_width"].as_f64().unwrap());
    assert!((widths[0] / widths[1] - 1.0).abs() < 0.1, "{widths:?}");
    assert_eq!([&folders, &files].map(|told| told["base"]["files"].as_u64()), [Some(5), Some(1)]);
    // Of five processes each is a run, and what they differ by is chance.
    let runs = told(["base-runs", "new-runs"], 0);
    assert!(slow(&runs)["half_width"].as_f64().unwrap() > 2.0 * widths[1], "{runs}");
    let wall = dir.run(&["diff", "base", "new", "--value", "wall"]);
    wall.check(2, &["each of another run"]);
}

/// Whoever copies a folder has not run the program again.
#[test]
fn copies_of_a_run_are_no_repetitions_of_it() {
    let dir = Dir::new();
    for (side, factor) in [("base", 1), ("new", 2)] {
        for (folder, run, files) in [("a", "one", 2), ("a-copy", "one", 3), ("b", "two", 1)] {
            for seq in 0..files {
                let numbers = [(40 + seq) * factor, 60 * factor, 0];
                let bytes = of_process(&format!("{side}-{run}"), seq, numbers);
                dir.write(&format!("{side}/{folder}/shop_7_{seq}.pb.gz"), &bytes);
            }
        }
    }
    let ran = dir.run(&["diff", "base", "new", "--json"]);
    let copies = "base: 2 files are copies of others, of the same period of the same process";
    ran.check(0, &[copies, "new: 2 files are copies"]);
    assert!(!ran.err.contains("same profiles"), "{}", ran.err);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let base = &told["base"];
    assert_eq!([&base["files"], &base["runs"], &base["samples"]], [4, 2, 403], "{base}");
    for (side, to) in [("base", "copied"), ("new", "copied")] {
        std::fs::create_dir_all(dir.path(to)).unwrap();
        let copy = dir.path(&format!("{to}/{side}.pb.gz"));
        std::fs::copy(dir.path(&format!("{side}/b/shop_7_0.pb.gz")), copy).unwrap();
    }
    for (sides, words) in [
        (["base/b", "copied/base.pb.gz"], "base/b and copied/base.pb.gz are the same profiles: "),
        (["base", "base/"], "base and base/ are the same profiles: compared with itself nothing"),
        (["base/b", "copied"], "1 of 2 profiles of copied are in base/b, too: what both sides"),
    ] {
        dir.run(&["diff", sides[0], sides[1]]).check(0, &[words]);
    }
    // Files that say no process are known by where they lie.
    dir.write("x.pb.gz", &bytes(400, 600, 0));
    dir.write("y.pb.gz", &bytes(400, 600, 0));
    dir.run(&["diff", "x.pb.gz", "x.pb.gz"]).check(0, &["are the same profiles"]);
    assert_eq!(dir.run(&["diff", "x.pb.gz", "y.pb.gz"]).err, "");
}

/// Twice as expensive in all that it does: no share shows it.
#[test]
fn a_doubling_of_everything_is_told_and_fails_if_runs_were_repeated() {
    let dir = Dir::new();
    for (side, factor) in [("base", 1), ("new", 2)] {
        for run in 0..3 {
            // A program and its child are one run.
            for pid in 0..2 {
                let numbers = [(400 + run) * factor, (600 - 2 * run) * factor, 0];
                let bytes = of_process(&format!("{side}-{run}-{pid}"), 0, numbers);
                dir.write(&format!("{side}/run-{run}/shop_{pid}_0.pb.gz"), &bytes);
            }
        }
        dir.write(&format!("{side}.pb.gz"), &bytes(400 * factor, 600 * factor, 0));
    }
    let one = dir.run(&["diff", "base.pb.gz", "new.pb.gz", "--fail-if", ">5%"]);
    one.check(0, &[]);
    for words in [
        "no share of a function differs by more than chance\n",
        "compared  shares of all CPU time: ",
        "total     CPU time of a run 10.0 s → 20.0 s (+100.0 %)\n",
        "only several runs of each side can say; --fail-if looks at shares alone",
    ] {
        assert!(one.out.contains(words), "{words}: {}", one.out);
    }
    let runs = dir.run(&["diff", "base", "new", "--fail-if", ">90%"]);
    runs.check(3, &[]);
    for words in [
        "base/run",
        "[everything]\n",
        "base      59.9 s in 5994 samples of ",
        "6 files of 3 runs",
        "became more expensive by more: [everything]\n",
    ] {
        assert!(runs.out.contains(words), "{words}: {}", runs.out);
    }
    dir.run(&["diff", "base", "new", "--fail-if", ">110%"]).check(0, &[]);
    dir.run(&["diff", "base", "base", "--fail-if", ">0%"]).check(0, &[]);
}

#[test]
fn what_cannot_be_compared_is_told() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &bytes(4, 6, 0));
    let run = |arguments: &[&str]| dir.run(&[&["diff", "a.pb.gz", "a.pb.gz"], arguments].concat());
    run(&["--fail-if", "5%"]).check(2, &["'5%' for '--fail-if", "does not begin with >", "'>5%'"]);
    run(&["--confidence", "100"]).check(2, &["from 50 to below 100"]);
    run(&["--value", "wall"]).check(2, &["only several files of each side"]);
    let nothing =
        "a.pb.gz: nothing there that could be compared: nothing matches --endpoint 'GET /x'";
    run(&["--endpoint", "GET /x"]).check(1, &[nothing, "the files know of no endpoints"]);
    dir.write("b.pb.gz", &profile_bytes(1, 0));
    dir.run(&["diff", "a.pb.gz", "b.pb.gz", "--state", "sleeping"]).check(1, &["matches --state"]);
    let asleep = dir.run(&["diff", "b.pb.gz", "b.pb.gz", "--state", "sleeping"]);
    asleep.check(1, &["compared: the profiles have cpu time, but --state sleeping leaves none of"]);
    std::fs::remove_file(dir.path("b.pb.gz")).unwrap();
    dir.run(&["diff", "a.pb.gz", "b.pb.gz"]).check(1, &["b.pb.gz: can't read the file"]);
    dir.run(&["diff", "a.pb.gz"]).check(2, &["<NEW>"]);
}

#[test]
fn wall_time_is_compared_between_files() {
    let dir = Dir::new();
    for (name, seq) in [("base/a", 0), ("base/b", 1), ("new/a", 2), ("new/b", 3)] {
        dir.write(&format!("{name}.pb.gz"), &profile_bytes(1, seq));
    }
    let ran = dir.run(&["diff", "base", "new", "--value", "wall"]);
    ran.check(0, &[]);
    assert!(ran.out.contains("base      1.40 s in 2 files\n"), "{}", ran.out);
    assert!(ran.out.starts_with("nothing differs by more than chance\n"), "{}", ran.out);
    let told: Value =
        serde_json::from_str(&dir.run(&["diff", "base", "new", "--value", "wall", "--json"]).out)
            .unwrap();
    assert!(told["base"]["samples"].is_null(), "{told}");
    assert_eq!(told["rows"][0]["name"], "Shop.Program.Main(string[])");
}
