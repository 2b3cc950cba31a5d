//! `corprof top`, `corprof env`, and what all commands have in common.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use std::io::Read as _;
use std::process::Stdio;

use model::{FrameKind, ThreadState};
use profile::{SampleKey, ThreadKey, Values};
use serde_json::Value;
use support::{Dir, MS, Ran, profile_bytes, profile_of};

#[test]
fn files_and_folders_are_merged() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(1, 0));
    dir.write("folder/b.pb.gz", &profile_bytes(1, 1));
    dir.write("folder/.hidden.pb.gz", b"being written");
    dir.write("folder/notes.txt", b"not a profile");
    let ran = dir.run(&["top", "a.pb.gz", "folder"]);
    ran.check(0, &[]);
    for line in [
        "  600 ms  75.0 %          0    0.0 %            Shop.Prices.Sum(int)  Shop.dll\n",
        "       0   0.0 %     1.40 s  100.0 %  sleeping  Shop.Program.Main(string[])  Shop.dll\n",
        "cpu total   cpu %  wall total   wall %  function",
        "total     800 ms CPU in 80 samples, 1.40 s wall",
        "wall      sleeping 1.40 s\n",
        "files     2 files",
    ] {
        assert!(ran.out.contains(line), "no {line:?} in\n{}", ran.out);
    }
    assert!(!ran.out.contains('\x1b'), "colour in a pipe");
}

#[test]
fn a_file_that_is_named_twice_counts_once() {
    let dir = Dir::new();
    dir.write("d/a.pb.gz", &profile_bytes(1, 0));
    dir.write("d/b.pb.gz", &profile_bytes(1, 1));
    let whole = dir.path("d/b.pb.gz").display().to_string();
    for (files, words) in [
        (&["d/a.pb.gz", "d/b.pb.gz"][..], ""),
        (&["d/a.pb.gz", "d/../d/a.pb.gz", "d/b.pb.gz"], "corprof: 1 file is named"),
        (&["d", "d", &whole], "corprof: 2 files are named more than once; each counts once\n"),
    ] {
        let ran = dir.run(&[&["top"], files].concat());
        ran.check(0, &[words]);
        assert!(ran.out.contains("800 ms CPU in 80 samples"), "{files:?}\n{}", ran.out);
        assert!(ran.out.contains("files     2 files\n"), "{files:?}\n{}", ran.out);
        assert_eq!(ran.err.lines().count(), usize::from(!words.is_empty()), "{}", ran.err);
    }
}

/// Windows lets administrators alone make links.
#[cfg(unix)]
#[test]
fn a_link_is_the_file_that_it_leads_to() {
    let dir = Dir::new();
    dir.write("d/a.pb.gz", &profile_bytes(1, 0));
    dir.write("d/b.pb.gz", &profile_bytes(1, 1));
    std::os::unix::fs::symlink("a.pb.gz", dir.path("d/link.pb.gz")).unwrap();
    let ran = dir.run(&["top", "d"]);
    ran.check(0, &["corprof: 1 file is named more than once; it counts once\n"]);
    assert!(ran.out.contains("files     2 files\n"), "{}", ran.out);
}

/// A process that was killed has no last word: what the kernel counted is up to the last file.
#[test]
fn what_the_kernel_counted_is_for_the_process_only_if_its_end_is_there() {
    let dir = Dir::new();
    for (name, seq, after) in [("0", 0, ""), ("1", 1, "end")] {
        let mut profile = profile_of(1, seq);
        profile.report.as_mut().unwrap().after = after.to_owned();
        dir.write(&format!("{name}.pb.gz"), &profile::pprof::write(&profile, vec![]).unwrap());
    }
    for (files, of) in [
        (&["0.pb.gz", "1.pb.gz"][..], "counted 1.00 s for the process; "),
        (&["1.pb.gz"], "counted 500 ms for the process; "),
        (&["0.pb.gz"], "counted 500 ms while it was profiled; "),
    ] {
        let ran = dir.run(&[&["top"], files].concat());
        ran.check(0, &[]);
        assert!(ran.out.contains(of), "no {of:?} in\n{}", ran.out);
    }
}

#[test]
fn rows_can_be_functions_threads_states_and_modules() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(1, 0));
    for (by, line) in [
        ("thread", "400 ms  100.0 %  700 ms  100.0 %  sleeping  main (100)\n"),
        ("state", "     0    0.0 %  700 ms  100.0 %  sleeping\n"),
        ("module", "   300 ms  75.0 %      700 ms  100.0 %  Shop.dll\n"),
    ] {
        let ran = dir.run(&["top", "a.pb.gz", "--by", by]);
        ran.check(0, &[]);
        assert!(ran.out.contains(line), "no {line:?} in\n{}", ran.out);
    }
    let first = |flags: &[&str]| {
        let ran = dir.run(&[&["top", "a.pb.gz", "--limit", "1"], flags].concat());
        ran.check(0, &[]);
        ran.out.lines().nth(2).unwrap().to_owned()
    };
    assert!(first(&["--sort", "self"]).contains("Prices.Sum"));
    // Of equal CPU time the one with more wall time comes first.
    assert!(first(&["--sort", "total"]).contains("Program.Main"));
    // A wait is the method's that waits, unless all is to be seen.
    assert!(first(&["--value", "wall"]).contains("Program.Main"));
    assert!(first(&["--value", "wall", "--all"]).contains("nanosleep"));
    assert!(first(&["--value", "wall", "--sort", "total"]).contains("Program.Main"));
    let ran = dir.run(&["top", "a.pb.gz", "--limit", "1", "--sort", "self"]);
    assert!(ran.out.contains("and 2 rows more"), "{}", ran.out);
}

#[test]
fn tables_of_nothing_say_why() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(1, 0));
    let mut profile = profile_of(1, 1);
    for sample in &mut profile.samples {
        (sample.values.cpu_ns, sample.values.wall_ns) = (0, 0);
    }
    dir.write("none.pb.gz", &profile::pprof::write(&profile, vec![]).unwrap());
    for (flags, words) in [
        (
            &["a.pb.gz", "--state", "sleeping", "--value", "cpu"][..],
            "have cpu time, but --state sleeping leaves none of it; choose another --value (there \
             is wall)",
        ),
        (&["none.pb.gz"], "the profiles have no time of any kind: nothing ran while they were"),
    ] {
        dir.run(&[&["top"], flags].concat()).check(0, &[words]);
    }
    let ran = dir.run(&["top", "a.pb.gz", "--state", "sleeping"]);
    ran.check(0, &[]);
    assert_eq!(ran.err, "");
    for command in [&["convert", "--to", "collapsed"][..], &["flamegraph"]] {
        let ran = dir.run(&[command, &["none.pb.gz", "-o", "out"]].concat());
        ran.check(1, &["have no time of any kind"]);
    }
    dir.run(&["convert", "none.pb.gz", "--to", "pprof", "-o", "out"]).check(0, &[]);
}

#[test]
fn a_script_gets_all_rows_and_a_person_twenty() {
    let dir = Dir::new();
    let names: Vec<String> = (0..25).map(|n| format!("m:f{n}")).collect();
    let frames: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
    let samples: Vec<(&[&str], _, _)> =
        frames.iter().map(|frames| (&frames[..], None, 5)).collect();
    dir.write("a.pb.gz", &stacks(&samples));
    let ran = dir.run(&["top", "a.pb.gz"]);
    assert!(ran.out.contains("and 5 rows more"), "{}", ran.out);
    for (flags, rows) in [(&[][..], 25), (&["--limit", "7"], 7), (&["--top", "30"], 25)] {
        let ran = dir.run(&[&["top", "a.pb.gz", "--json"], flags].concat());
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), rows, "{flags:?}");
    }
}

/// .NET's thread for signals reads a pipe all the time, and its library has no frame pointers.
#[test]
fn a_thread_of_the_runtimes_own_is_left_out_however_far_its_stack_goes() {
    let dir = Dir::new();
    let stack = |root| ["n:read", "n:[libSystem.Native.so]", "s:[frame pointer unknown]", root];
    let (runtimes, others) = (stack("s:.NET runtime"), stack("n:[libother.so]"));
    let io = Some(ThreadState::Io);
    dir.write("a.pb.gz", &stacks(&[(&runtimes, io, 9_000), (&others, io, 90)]));
    check_lines(
        &dir.run(&["top", "a.pb.gz", "--value", "wall"]),
        &[
            "wall io 90.0 ms",
            "left out 9.00 s of wall time, in threads that waited for work (corprof top --all has \
             it)",
        ],
    );
}

#[test]
fn what_says_nothing_of_the_program_is_left_out_unless_all_is_wanted() {
    use ThreadState::{Lock, Runnable, Running, Sleeping, Waiting};
    let dir = Dir::new();
    dir.write(
        "a.pb.gz",
        &stacks(&[
            // A pool thread at work, ready to work, at a lock, in a sleep, and waiting for work.
            (&["n:[libcoreclr.so]", "m:Shop.Load()", DISPATCH, "n:[libc.so.6]"], None, 50),
            (&["m:Shop.Load()", DISPATCH, "n:[libc.so.6]"], Some(Runnable), 60),
            (&["n:futex", "m:Shop.Load()", DISPATCH, "n:[libc.so.6]"], Some(Lock), 70),
            (&["n:futex", "m:Shop.Nap()", DISPATCH, "n:[libc.so.6]"], Some(Sleeping), 80),
            (&["n:futex", IDLE, "n:[libc.so.6]"], Some(Waiting), 7_000),
            // It spins first: the wall time of that is no work, the CPU time was used.
            (&["n:sched_yield", IDLE, "n:[libc.so.6]"], Some(Runnable), 1_200),
            (&["n:sched_yield", IDLE, "n:[libc.so.6]"], Some(Running), 800),
            // A thread of the runtime's own, waiting; and one that was not walked to its end.
            (&["n:futex", "n:[libcoreclr.so]", "n:[libc.so.6]"], Some(Waiting), 9_000),
            (&["n:futex", "n:[libcoreclr.so]", "s:[no unwind rule]"], Some(Waiting), 90),
        ]),
    );
    check_lines(
        &dir.run(&["top", "a.pb.gz", "--value", "wall"]),
        &[
            "total 50.0 ms CPU in 1 sample, 300 ms wall",
            "wall waiting 90.0 ms, sleeping 80.0 ms, lock 70.0 ms, runnable 60.0 ms (no processor \
             was free)",
            "left out 18.0 s of wall time, in threads that waited for work (corprof top --all has \
             it)",
            // In the code itself: work where it is, waits in the method, the unknown where it is.
            "50.0 ms 100.0 % 0 0.0 % [libcoreclr.so] .NET runtime",
            "0 0.0 % 130 ms 43.3 % lock Shop.Load()",
            "0 0.0 % 80.0 ms 26.7 % sleeping Shop.Nap()",
            "0 0.0 % 90.0 ms 30.0 % waiting futex",
            // With all that it called.
            "50.0 ms 100.0 % 130 ms 43.3 % Shop.Load()",
        ],
    );
    let ran = dir.run(&["top", "a.pb.gz"]);
    for word in ["Dispatch", "LowLevelLifo", "libc.so.6"] {
        assert!(!ran.out.contains(word), "{word} in\n{}", ran.out);
    }
    check_lines(
        &dir.run(&["top", "a.pb.gz", "--value", "wall", "--all"]),
        &[
            "total 50.0 ms CPU in 1 sample, 18.3 s wall",
            "0 0.0 % 16.2 s 88.7 % waiting futex",
            "50.0 ms 100.0 % 18.2 s 99.5 % [libc.so.6] C library",
        ],
    );
    let locks = dir.run(&["top", "a.pb.gz", "--state", "lock"]);
    check_lines(
        &locks,
        &["total 0 CPU in 0 samples, 70.0 ms wall", "0 70.0 ms 100.0 % lock Shop.Load()"],
    );
    assert!(!locks.out.contains("Nap") && !locks.out.contains("kernel"), "{}", locks.out);
    check_lines(
        &dir.run(&["top", "a.pb.gz", "--state", "lock,sleeping", "--by", "state"]),
        &["0 80.0 ms 53.3 % sleeping", "0 70.0 ms 46.7 % lock"],
    );
    dir.run(&["top", "a.pb.gz", "--state", "busy"]).check(2, &["none of running, runnable"]);
    let json: Value = serde_json::from_str(&dir.run(&["top", "a.pb.gz", "--json"]).out).unwrap();
    assert_eq!(json["total"]["wall_ns"], 18_300_000_000_u64);
    assert_eq!(json["wall_by_state"]["waiting_for_work_ns"], 18_000_000_000_u64);
    assert_eq!(json["wall_by_state"]["lock_ns"], 70_000_000);
}

#[test]
fn pauses_have_a_line_and_no_rows() {
    let dir = Dir::new();
    let mut aggregate = profile::Aggregate::default();
    let [reason, kind, root, work] =
        ["automatic", "generation 1", "Garbage Collector", "Shop.Load()"]
            .map(|name| aggregate.synthetic_frame(name));
    let stack = aggregate.stack([reason, kind, root]);
    let (thread, nobody) = (ThreadKey { tid: 7, generation: 0 }, ThreadKey::NONE);
    let key = SampleKey { stack, thread: nobody, state: None, span: None, labels: 0 };
    let _ = aggregate.add(&key, Values { gc_ns: 40 * MS, ..Values::default() });
    let key = SampleKey {
        stack: aggregate.stack([work]),
        thread,
        state: Some(ThreadState::GcPause),
        ..key
    };
    let _ = aggregate.add(&key, Values { wall_ns: 30 * MS, ..Values::default() });
    let period = profile::Period { duration_ns: 1000 * MS, ..profile::Period::default() };
    let mut profile = aggregate.take(period).profile;
    profile.report = Some(profile::SelfReport {
        gc_collections: [1, 0, 2],
        gc_background: 1,
        gc_before_background: 1,
        gc_pauses: 5,
        gc_pause_ns: 40 * MS,
        gc_pause_max_ns: 25 * MS,
        other_pauses: 1,
        other_pause_ns: MS,
        ..profile::SelfReport::default()
    });
    dir.write("a.pb.gz", &profile::pprof::write(&profile, Vec::new()).unwrap());
    let ran = dir.run(&["top", "a.pb.gz"]);
    check_lines(
        &ran,
        &[
            "gc 4 collections: 1 of generation 0, 2 of generation 2 (1 in the background), 1 of \
             generation 0 or 1; 5 pauses, 40.0 ms (4.0 % of the time), the longest 25.0 ms; 1 stop \
             of all threads for other reasons, 1.00 ms",
            "wall gc pause 30.0 ms",
            "0 30.0 ms 100.0 % gc pause Shop.Load()",
        ],
    );
    assert!(!ran.out.contains("automatic"), "{}", ran.out);
    check_lines(
        &dir.run(&["top", "a.pb.gz", "--state", "gc-pause", "--by", "state"]),
        &["0 30.0 ms 100.0 % gc pause"],
    );
    let json: Value = serde_json::from_str(&dir.run(&["top", "a.pb.gz", "--json"]).out).unwrap();
    assert_eq!(json["wall_by_state"]["gc_pause_ns"], 30 * MS);
    assert_eq!(json["rows"].as_array().unwrap().len(), 1, "{json}");
    let gc = &json["profiler"]["gc"];
    assert_eq!(gc["collections_by_generation"], serde_json::json!([1, 0, 2]));
    assert_eq!(gc["pause_ns"], 40 * MS);
    assert_eq!(gc["pause_share"], 0.04);
}

/// Fails unless the output has all these lines, however many spaces are in them.
fn check_lines(ran: &Ran, lines: &[&str]) {
    ran.check(0, &[]);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let out: Vec<String> = ran.out.lines().map(words).collect();
    for line in lines {
        assert!(out.iter().any(|other| other == line), "no {line:?} in\n{}", ran.out);
    }
}

const DISPATCH: &str = "m:System.Threading.ThreadPoolWorkQueue.Dispatch()";
const IDLE: &str = "m:System.Threading.LowLevelLifoSemaphore.Wait(int, bool)";

/// A profile of stacks in milliseconds, of CPU where there is no state. Frames are the leaf first,
/// with their kind: m(anaged), n(ative) or s(ynthetic).
fn stacks(samples: &[(&[&str], Option<ThreadState>, u64)]) -> Vec<u8> {
    let mut aggregate = profile::Aggregate::default();
    let thread = profile::ThreadKey { tid: 7, generation: 0 };
    for (names, state, ms) in samples {
        let frames: Vec<_> = names.iter().map(|name| frame(&mut aggregate, name)).collect();
        let stack = aggregate.stack(frames);
        let mut values = profile::Values::default();
        match state {
            None => (values.count, values.cpu_ns) = (1, ms * MS),
            Some(_) => values.wall_ns = ms * MS,
        }
        let key = profile::SampleKey { stack, thread, state: *state, span: None, labels: 0 };
        assert_eq!(aggregate.add(&key, values), profile::Added::Kept);
    }
    let taken = aggregate.take(profile::Period::default());
    profile::pprof::write(&taken.profile, Vec::new()).unwrap()
}

fn frame(aggregate: &mut profile::Aggregate, name: &str) -> profile::FrameId {
    let (kind, name) = name.split_at(2);
    let kind = match kind {
        "m:" => FrameKind::Managed,
        "n:" => FrameKind::Native,
        _ => return aggregate.synthetic_frame(name),
    };
    let file = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let module = file.and_then(|file| {
        aggregate.module(&profile::ModuleInfo { file, build_id: "", start: 0, limit: 0 })
    });
    support::frame(aggregate, name, kind, module)
}

#[test]
fn the_main_thread_without_a_name_is_main_and_processes_add_up() {
    let dir = Dir::new();
    let idle = (&["n:futex", IDLE, "n:[libc.so.6]"][..], Some(ThreadState::Waiting), 9_000);
    let work = (&["m:Shop.Load()"][..], Some(ThreadState::Io), 60);
    dir.write("shop_7_0001.pb.gz", &stacks(&[idle, work]));
    dir.write("shop_8_0001.pb.gz", &stacks(&[idle, work]));
    check_lines(
        &dir.run(&["top", ".", "--by", "thread"]),
        &["0 120 ms 100.0 % io main (7)", "0 60.0 ms 1 7 shop", "0 60.0 ms 1 8 shop"],
    );
    check_lines(&dir.run(&["top", ".", "--all"]), &["0 9.06 s 1 7 shop"]);
    dir.write("x/shop_9_0001.pb.gz", &stacks(&[work]));
    check_lines(&dir.run(&["top", "x", "--by", "thread"]), &["0 60.0 ms 100.0 % io [unnamed] (7)"]);
    dir.run(&["top", "x", "--top", "3"]).check(0, &[]);
}

#[test]
fn json_is_json() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(1, 0));
    for by in ["function", "thread", "state", "module"] {
        let ran = dir.run(&["top", "a.pb.gz", "--json", "--by", by]);
        ran.check(0, &[]);
        let json: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(json["by"], by);
        assert_eq!(json["total"]["cpu_ns"], 400_000_000);
        assert_eq!(json["files"][0], "a.pb.gz");
    }
}

#[test]
fn each_bad_file_is_named_and_the_exit_code_says_so() {
    let dir = Dir::new();
    let good = profile_bytes(1, 0);
    dir.write("good.pb.gz", &good);
    dir.write("empty.pb.gz", b"");
    dir.write("cut.pb.gz", &good[..good.len() / 2]);
    dir.write("text.pb.gz", b"this is text, not a profile\n");
    dir.write("nothing/x.txt", b"");
    dir.write("outer/inner/x.pb.gz", &good);
    for (file, words) in [
        ("empty.pb.gz", "empty.pb.gz: the file is empty"),
        ("cut.pb.gz", "cut.pb.gz: the gzip data is cut short or damaged"),
        ("text.pb.gz", "text.pb.gz: not a pprof profile"),
        ("missing.pb.gz", "missing.pb.gz: can't read the file: No such file"),
        ("/dev/null", "/dev/null: not a regular file"),
        ("nothing", "nothing: no profiles (*.pb.gz) in this folder"),
        ("outer", "name one, such as outer/inner"),
    ] {
        let ran = dir.run(&["top", file]);
        ran.check(1, &[words, "no profile could be read"]);
        assert_eq!(ran.out, "");
        let ran = dir.run(&["top", file, "good.pb.gz"]);
        ran.check(1, &[words]);
        assert!(ran.out.contains("400 ms CPU"), "{}", ran.out);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &profile_bytes(1, 0));
    for flags in [&["top", "a.pb.gz"][..], &["top", "a.pb.gz", "--json"], &["env", "--docker"]] {
        let mut child =
            dir.corprof(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{flags:?}");
    }
}

#[test]
fn names_in_files_do_not_speak_to_the_terminal() {
    let dir = Dir::new();
    let mut aggregate = profile::Aggregate::default();
    let frame = aggregate.synthetic_frame("\x1b]0;owned\x07\nnew line");
    let stack = aggregate.stack([frame]);
    let key = profile::SampleKey {
        stack,
        thread: profile::ThreadKey::NONE,
        state: None,
        span: None,
        labels: 0,
    };
    let _ = aggregate.add(
        &key,
        profile::Values { count: 1, cpu_ns: 5, wall_ns: 0, ..profile::Values::default() },
    );
    let taken = aggregate.take(profile::Period::default());
    dir.write("a.pb.gz", &profile::pprof::write(&taken.profile, Vec::new()).unwrap());
    let ran = dir.run(&["top", "a.pb.gz"]);
    assert!(ran.out.contains("\u{fffd}]0;owned\u{fffd}\u{fffd}new line"), "{:?}", ran.out);
    assert!(ran.out.contains("don't hold the profiler's numbers"), "{}", ran.out);
}

#[test]
fn env_prints_what_run_would_set() {
    let dir = Dir::new();
    let ran = dir.run(&["env", "--cpu-interval", "5ms", "--service", "it's"]);
    ran.check(0, &[]);
    let agent = dir.path("libcorprof.so");
    assert_eq!(
        ran.out,
        format!(
            "export CORECLR_ENABLE_PROFILING='1'\n\
             export CORECLR_PROFILER='{{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}}'\n\
             export CORECLR_PROFILER_PATH='{}'\n\
             export CORPROF_OUTPUT_DIR='{}'\n\
             export CORPROF_SERVICE='it'\\''s'\n\
             export CORPROF_CPU_INTERVAL='5ms'\n",
            agent.display(),
            dir.path("corprof-out").display()
        )
    );
    let ran = dir.run(&["env", "--agent", "./libcorprof.so", "--out", "x", "--log-file", "y"]);
    for (name, path) in [
        ("CORECLR_PROFILER_PATH", "libcorprof.so"),
        ("CORPROF_OUTPUT_DIR", "x"),
        ("CORPROF_LOG_FILE", "y"),
    ] {
        let line = format!("export {name}='{}'\n", dir.path(path).display());
        assert!(ran.out.contains(&line), "{}", ran.out);
    }
    dir.run(&["env", "--agent", "gone.so"]).check(1, &["the agent given by --agent can't be used"]);
    dir.run(&["env", "--k8s", "--agent", "a.so"]).check(1, &["needs an absolute path"]);
    let docker = dir.run(&["env", "--docker", "--spans", "false"]);
    let head = "# The agent has to be there: COPY libcorprof.so /opt/corprof/libcorprof.so\n\
                # A volume that the program's user can write to has to be at \
                \"/var/lib/corprof\"\n\
                ENV CORECLR_ENABLE_PROFILING=\"1\" \\\n";
    assert!(docker.out.starts_with(head), "{}", docker.out);
    // The program's working folder is none that its user can write to, as a rule.
    assert!(docker.out.ends_with("CORPROF_SPANS=\"false\"\n"), "{}", docker.out);
    let folder = "    CORPROF_OUTPUT_DIR=\"/var/lib/corprof\" \\\n";
    assert!(docker.out.contains(folder), "{}", docker.out);
    assert!(docker.out.contains("CORECLR_PROFILER_PATH=\"/opt/corprof/libcorprof.so\""));
    let k8s = dir.run(&["env", "--k8s", "--agent", "/a.so", "--out", "/profiles"]);
    assert!(
        k8s.out.contains("  - name: CORECLR_PROFILER_PATH\n    value: \"/a.so\"\n"),
        "{}",
        k8s.out
    );
    assert!(k8s.out.contains("  - name: CORPROF_OUTPUT_DIR\n    value: \"/profiles\"\n"));
    assert!(k8s.out.contains(" has to be at \"/profiles\"\n"), "{}", k8s.out);
    assert_eq!(k8s.out.matches("CORPROF_OUTPUT_DIR").count(), 1, "{}", k8s.out);
    let ran = dir.corprof(&["env"]).env("CORPROF_AGENT", "gone.so").output().unwrap();
    Ran::of(ran).check(1, &["the agent given by CORPROF_AGENT can't be used"]);
    dir.run(&["env", "--docker", "--k8s"]).check(2, &["cannot be used with"]);
}

#[test]
fn env_names_the_startup_hook_where_it_is() {
    let dir = Dir::new();
    let value = "export DOTNET_STARTUP_HOOKS=";
    let ran = dir.run(&["env"]);
    // .NET would not start a program for which it can't find the file.
    ran.check(0, &["warning: samples don't know their requests: there is no Corprof.Spans.dll"]);
    assert!(!ran.out.contains(value), "{}", ran.out);

    let hook = dir.write("Corprof.Spans.dll", b"MZ and more");
    let ran = dir.run(&["env"]);
    let line = format!(
        "{value}\"${{DOTNET_STARTUP_HOOKS:+$DOTNET_STARTUP_HOOKS:}}\"'{}'\n",
        hook.display()
    );
    assert!(ran.err.is_empty() && ran.out.ends_with(&line), "{ran:?}");
    for (present, expected) in [("", ""), ("/a.dll", "/a.dll:")] {
        let script = format!("{}echo $DOTNET_STARTUP_HOOKS", ran.out);
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", &script]).env("DOTNET_STARTUP_HOOKS", present).output();
        let value = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(value, format!("{expected}{}\n", hook.display()));
    }
    let ran = dir.run(&["env", "--spans", "no"]);
    assert!(ran.err.is_empty() && !ran.out.contains(value), "{ran:?}");
    assert!(ran.out.contains("export CORPROF_SPANS='no'\n"), "{ran:?}");
    let ran = dir.corprof(&["env"]).env("CORPROF_SPANS", "0").output().unwrap();
    assert!(!Ran::of(ran).out.contains(value));
}

#[test]
fn images_have_to_have_the_startup_hook() {
    let dir = Dir::new();
    let docker = dir.run(&["env", "--docker"]).out;
    assert!(docker.contains("COPY Corprof.Spans.dll /opt/corprof/Corprof.Spans.dll\n"), "{docker}");
    let value = "DOTNET_STARTUP_HOOKS=\"${DOTNET_STARTUP_HOOKS:+$DOTNET_STARTUP_HOOKS:}\
                 /opt/corprof/Corprof.Spans.dll\"\n";
    assert!(docker.ends_with(value), "{docker}");
    let k8s = dir.run(&["env", "--k8s", "--agent", "/x/libcorprof.so"]).out;
    assert!(k8s.contains("\n# /x/Corprof.Spans.dll (--spans false leaves it out).\n"), "{k8s}");
    let own =
        "# If the image sets DOTNET_STARTUP_HOOKS itself, put its hooks before this one, with";
    assert!(k8s.contains(own), "{k8s}");
    let value = "  - name: DOTNET_STARTUP_HOOKS\n    value: \"/x/Corprof.Spans.dll\"\n";
    assert!(k8s.ends_with(value), "{k8s}");
    for form in ["--docker", "--k8s"] {
        let without = dir.run(&["env", form, "--spans", "off"]).out;
        assert!(!without.contains("Corprof.Spans.dll"), "{without}");
        assert!(!without.contains("STARTUP_HOOKS"), "{without}");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let dir = Dir::new();
    let help = |arguments: &[&str], parts: &[&str]| {
        let ran = dir.run(arguments);
        ran.check(0, &[]);
        for part in parts {
            assert!(ran.out.contains(part), "no {part:?} in\n{}", ran.out);
        }
    };
    help(&["--help"], &["Exit codes:", "125", "126", "127", "run", "top", "env"]);
    help(
        &["run", "--help"],
        &["keeps its standard input", "Examples:", "--cpu-interval <DURATION>", "CORPROF_LOG"],
    );
    help(&["top", "--help"], &["Examples:", "--by"]);
    help(&["env", "--help"], &["Examples:", "--k8s", "with --docker and --k8s /var"]);
}
