//! `corprof run`: the program is left alone, and what it left is reported.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use std::fs;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use serde_json::Value;
use support::{Dir, MS, Ran, elf, eventually, exists, machine, profile_bytes, profile_of};

/// A script that leaves a profile as the agent would.
fn leaves_profile(dir: &Dir, pids: &[u64]) -> String {
    let mut script = String::new();
    for (seq, pid) in pids.iter().enumerate() {
        let source = dir.write(&format!("made-{pid}-{seq}"), &profile_bytes(*pid, seq as u64));
        let target = format!("\"$CORPROF_OUTPUT_DIR\"/shop_{pid}_{seq:04}.pb.gz");
        script.push_str(&format!("cp {} {target}; ", source.display()));
    }
    script
}

#[test]
fn the_program_keeps_its_output_input_and_exit_code() {
    let dir = Dir::new();
    let mut child = dir
        .corprof(&["run", "--", "sh", "-c", "cat; echo err >&2; exit 42"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"some input").unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    ran.check(42, &["err\n", "no profile appeared; the program ended with exit code 42"]);
    assert_eq!(ran.out, "some input");
}

#[test]
fn the_program_sees_the_agent_and_our_options() {
    let dir = Dir::new();
    // Read by the shell itself: it clears the mask when it waits for a child.
    let script = "while read -r line; do echo \"$line\"; done < /proc/self/status; env";
    let ran = dir.run_sh(&["--out", "here", "--cpu-interval", "5ms", "--log-file", "log"], script);
    ran.check(0, &[]);
    let agent = dir.path("libcorprof.so");
    for line in [
        "CORECLR_ENABLE_PROFILING=1",
        "CORECLR_PROFILER={8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}",
        &format!("CORECLR_PROFILER_PATH={}", agent.display()),
        "CORPROF_CPU_INTERVAL=5ms",
        "CORPROF_UPLOAD_PERIOD=5s",
        &format!("CORPROF_OUTPUT_DIR={}", dir.path("here").display()),
        &format!("CORPROF_LOG_FILE={}", dir.path("log").display()),
        "SigBlk:\t0000000000000000",
    ] {
        assert!(ran.out.lines().any(|other| other == line), "no {line:?} in {}", ran.out);
    }
}

#[test]
fn the_startup_hook_is_named_if_it_is_there_after_the_programs_own() {
    let dir = Dir::new();
    let script = format!("echo \"$DOTNET_STARTUP_HOOKS\"; {}", leaves_profile(&dir, &[1]));
    let hint = "spans     samples don't know their requests: there is no Corprof.Spans.dll";
    let ran = dir.run_sh(&[], &script);
    ran.check(0, &[hint]);
    assert_eq!(ran.out, "\n");
    dir.write("Corprof.Spans.dll", b"");
    dir.run_sh(&[], &script).check(0, &[hint]);

    let hook = dir.write("Corprof.Spans.dll", b"MZ and more").display().to_string();
    let with = |flags: &[&str], present: &str| {
        let arguments = [&["run"], flags, &["--", "sh", "-c", &script]].concat();
        let mut command = dir.corprof(&arguments);
        let ran = Ran::of(command.env("DOTNET_STARTUP_HOOKS", present).output().unwrap());
        ran.check(0, &[]);
        assert!(!ran.err.contains("know their requests"), "{}", ran.err);
        ran.out
    };
    assert_eq!(with(&[], ""), format!("{hook}\n"));
    assert_eq!(with(&[], "/a.dll:B"), format!("/a.dll:B:{hook}\n"));
    assert_eq!(with(&[], "/x/Corprof.Spans.dll"), "/x/Corprof.Spans.dll\n");
    assert_eq!(with(&["--spans", "false"], "/a.dll"), "/a.dll\n");
}

#[test]
fn files_come_as_often_as_somebody_said() {
    let dir = Dir::new();
    let script = "echo $CORPROF_UPLOAD_PERIOD";
    assert_eq!(dir.run_sh(&["--upload-period", "7s"], script).out, "7s\n");
    let inherits = |value: &str| {
        let mut command = dir.corprof(&["run", "--", "sh", "-c", script]);
        Ran::of(command.env("CORPROF_UPLOAD_PERIOD", value).output().unwrap()).out
    };
    assert_eq!(inherits("2m"), "2m\n");
    assert_eq!(inherits(""), "5s\n");
}

#[test]
fn a_signal_that_ends_the_program_is_its_exit_code() {
    let dir = Dir::new();
    dir.run_sh(&[], "kill -TERM $$").check(128 + 15, &["ended by SIGTERM before the agent had"]);
    let ran = dir.run_sh(&[], "kill -KILL $$");
    ran.check(128 + 9, &["ended by SIGKILL before the agent had written a file", "--for 30s"]);
    assert!(!ran.err.contains("Either"), "{}", ran.err);
    assert!(dir.out_folders().is_empty(), "an empty folder stayed behind");
    let script = format!("{} kill -INT $$", leaves_profile(&dir, &[1]));
    dir.run_sh(&[], &script).check(
        128 + 2,
        &[
            "ended by SIGINT after",
            "what came after the last file: up to 5s are missing",
            "counted 500 ms while it was profiled; ",
        ],
    );
    dir.run_sh(&["--json=r.json"], &script).check(128 + 2, &["warning: the program was ended by"]);
}

#[test]
fn a_program_that_cannot_be_started_has_its_own_codes() {
    let dir = Dir::new();
    dir.run(&["run", "--", "no-such-program"])
        .check(127, &["error: there is no program no-such-program in PATH"]);
    dir.run(&["run", "--", "./no-such-program"])
        .check(127, &["there is no program ./no-such-program"]);
    dir.write("App.dll", b"MZ");
    dir.run(&["run", "App.dll"])
        .check(127, &["no program App.dll in PATH; for a .NET assembly: dotnet App.dll"]);
    dir.run(&["run", "--", "./App.dll"])
        .check(126, &["./App.dll may not be executed; for a .NET assembly: dotnet ./App.dll"]);
    dir.run(&["run", "--", "./"]).check(126, &["is a folder"]);
    let script = dir.write("script", b"#!/no/such/interpreter\n");
    let chmod = Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    assert!(chmod.success());
    dir.run(&["run", "--", "./script"]).check(126, &["the interpreter or loader that it names"]);
    assert!(dir.out_folders().is_empty(), "an empty folder stayed behind");
}

#[test]
fn signals_reach_the_program() {
    let dir = Dir::new();
    for (signal, code) in [("TERM", 3), ("USR1", 4), ("HUP", 5), ("INT", 6)] {
        let ready = dir.path(&format!("ready-{signal}"));
        let script = format!(
            "trap 'echo got {signal}; exit {code}' {signal}; touch {}; \
             while :; do sleep 0.02; done",
            ready.display()
        );
        let child = dir
            .corprof(&["run", "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(eventually(|| exists(&ready)));
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let ran = Ran::of(child.wait_with_output().unwrap());
        ran.check(code, &[]);
        assert_eq!(ran.out, format!("got {signal}\n"));
    }
}

/// On one processor the program may be at work before we are told that it was started.
#[test]
fn a_signal_right_after_the_start_does_not_end_us() {
    let dir = Dir::new();
    let script = format!("trap '' TERM; kill -TERM $PPID; {} exit 3", leaves_profile(&dir, &[1]));
    let inner = dir.corprof(&["run", "--", "sh", "-c", &script]);
    for _ in 0..20 {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(inner.get_program()).args(inner.get_args());
        command.current_dir(&dir.0).env("CORPROF_AGENT", dir.path("libcorprof.so"));
        let ran = Ran::of(command.output().unwrap());
        ran.check(3, &["the program ended with exit code 3 after", "Shop.Prices.Sum(int)"]);
    }
}

#[test]
fn after_its_time_the_program_is_asked_to_end_and_reported() {
    let dir = Dir::new();
    let script =
        format!("trap 'exit 7' TERM; {} while :; do sleep 0.02; done", leaves_profile(&dir, &[1]));
    let ran = dir.run_sh(&["--for", "300ms"], &script);
    ran.check(7, &["the time is over: SIGTERM to the program", "Shop.Prices.Sum(int)"]);
}

/// What is stopped would act on no SIGTERM, and lose its last profile.
#[test]
fn a_program_that_is_stopped_at_its_end_goes_on_and_that_is_told() {
    let dir = Dir::new();
    let script =
        format!("trap 'exit 7' TERM; {} kill -STOP $$; exit 8", leaves_profile(&dir, &[1]));
    let ran = dir.run_sh(&["--for", "4s"], &script);
    ran.check(7, &["SIGTERM to the program, and SIGCONT, since it is stopped"]);
    assert!(plain(&ran.err).contains("of which it was stopped (SIGSTOP"), "{}", ran.err);
}

/// Without what wraps lines.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_limit_of_a_files_size_is_told() {
    let dir = Dir::new();
    let inner = dir.corprof(&["run", "--", "true"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(inner.get_program());
    limited.args(inner.get_args()).current_dir(&dir.0);
    limited.env("CORPROF_AGENT", dir.path("libcorprof.so"));
    let ran = Ran::of(limited.output().unwrap());
    ran.check(0, &[]);
    let said = plain(&ran.err);
    assert!(said.contains("File too large") && said.contains("ulimit -f unlimited"), "{said}");
}

#[test]
fn the_report_goes_to_standard_error() {
    let dir = Dir::new();
    let script = format!("echo out; {} exit 3", leaves_profile(&dir, &[7, 7]));
    let ran = dir.run_sh(&[], &script);
    ran.check(
        3,
        &[
            "the program ended with exit code 3 after",
            "  600 ms  75.0 %          0    0.0 %            Shop.Prices.Sum(int)  Shop.dll\n",
            "   600 ms  75.0 %      1.40 s  100.0 %  Shop.Program.Main(string[])  Shop.dll\n",
            "total     800 ms CPU in 80 samples, 1.40 s wall",
            "counted 1.00 s while it was profiled; ",
            "the profiler's own threads make 808 ms (-19.2 %)",
            "profiler  used 8.00 ms CPU (0.8 % of the program's, 0.4 % of a processor) and 3.00 \
             MiB of memory",
            "lost      ring_full 6",
            "profiles  2 files in corprof-out/sh-",
        ],
    );
    assert_eq!(ran.out, "out\n");
}

/// A program that leaves a profile of its own, which ended long before it does.
fn covers_a_part(dir: &Dir, flags: &[&str], after: &str, folder: &str) -> Ran {
    let [pid_file, made] = ["pid", "made"].map(|name| dir.path(name));
    let script = format!(
        "echo $$ > pid.tmp; mv pid.tmp {}; while ! test -e {made}; do sleep 0.02; done; \
         cp {made} \"$CORPROF_OUTPUT_DIR\"/shop_$$_0000.pb.gz; rm pid made; exit 0",
        pid_file.display(),
        made = made.display()
    );
    let arguments = [&["run"], flags, &["--", "sh", "-c", &script]].concat();
    let child = dir.corprof(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    assert!(eventually(|| exists(&pid_file)));
    let pid = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let mut profile = profile_of(pid, 0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    profile.period.start_unix_ns = u64::try_from(now.as_nanos()).unwrap() - 11_000 * MS;
    let report = profile.report.as_mut().unwrap();
    (report.after, report.after_folder) = (after.to_owned(), folder.to_owned());
    dir.write("made.tmp", &profile::pprof::write(&profile, Vec::new()).unwrap());
    fs::rename(dir.path("made.tmp"), &made).unwrap();
    Ran::of(child.unwrap().wait_with_output().unwrap())
}

#[test]
fn a_part_of_the_time_that_is_in_no_file_is_told() {
    let dir = Dir::new();
    for (after, folder, words) in [
        ("stop", "", "the profiler was stopped (`corprof ctl PID stop`)"),
        ("leave", "", "the profiler left (`corprof ctl PID detach`)"),
        ("set", "/else", "had the files go to /else; `corprof top /else` shows them"),
        ("set", "", "came, and then no files here"),
        ("", "", "the profiler wrote nothing more"),
    ] {
        let ran = covers_a_part(&dir, &[], after, folder);
        let part = "s of that are not in this report";
        ran.check(0, &["missing  ", "s at the end: ", words, part, "while it was profiled"]);
        assert!(!ran.err.contains("for the process"), "{}", ran.err);
    }
    let ran = covers_a_part(&dir, &[], "end", "");
    ran.check(0, &["counted 500 ms for the process"]);
    assert!(!ran.err.contains("missing "), "{}", ran.err);
    let ran = covers_a_part(&dir, &["--json=r.json"], "stop", "");
    ran.check(0, &["warning: the report doesn't have ", "the profiler was stopped"]);
    let json: Value = serde_json::from_slice(&fs::read(dir.path("r.json")).unwrap()).unwrap();
    let gap = &json["missing"][0];
    assert!(gap["ns"].as_u64() >= Some(10_000 * MS), "{gap}");
    assert_eq!((&gap["after"], &gap["at_end"]), (&"stop".into(), &true.into()));
}

/// Each file has the count since its process's start: the largest of a process, the sum of all.
#[test]
fn profiles_that_targets_refused_are_lost() {
    let dir = Dir::new();
    for (pid, seq, lost) in [(7, 0, 1), (7, 1, 2), (8, 0, 1)] {
        let mut profile = profile_of(pid, seq);
        profile.report.as_mut().unwrap().export_lost = lost;
        let bytes = profile::pprof::write(&profile, Vec::new()).unwrap();
        dir.write(&format!("x/shop_{pid}_{seq:04}.pb.gz"), &bytes);
    }
    let ran = dir.run_sh(&["--out", "y"], "cp x/* \"$CORPROF_OUTPUT_DIR\"");
    ran.check(0, &["lost      ring_full 9, 3 profiles that targets refused"]);
}

#[test]
fn child_processes_are_merged_and_listed() {
    let dir = Dir::new();
    let ran = dir.run_sh(&["--out", "x"], &leaves_profile(&dir, &[7, 8]));
    ran.check(
        0,
        &[
            "(0.8 % of the program's, 0.4 % of a processor in each process) and 6.00 MiB of memory",
            "400 ms  700 ms      1    7  shop",
            "400 ms  700 ms      1    8  shop",
        ],
    );
    // A second run into the same folder reports its own files only.
    let ran = dir.run_sh(&["--out", "x"], &leaves_profile(&dir, &[9]));
    ran.check(0, &["total     400 ms CPU", "1 file in x"]);
}

#[test]
fn the_report_can_be_json() {
    let dir = Dir::new();
    let script = format!("echo out; {}", leaves_profile(&dir, &[7]));
    let check = |text: &str| {
        let json: Value = serde_json::from_str(text).unwrap();
        assert_eq!(json["total"]["cpu_ns"], 400_000_000);
        assert_eq!(json["rows"][0]["name"], "Shop.Prices.Sum(int)");
        assert_eq!(json["profiler"]["lost"]["ring_full"], 3);
        assert_eq!(json["profiler"]["own_processor_share"], 0.004);
        assert_eq!(json["exit_code"], 0);
        assert_eq!(json["processes"][0]["pid"], 7);
    };
    let ran = dir.run_sh(&["--json=-"], &script);
    ran.check(0, &[]);
    check(ran.out.strip_prefix("out\n").unwrap());
    let ran = dir.run_sh(&["--json=r.json"], &script);
    ran.check(0, &["the report is in r.json"]);
    check(&fs::read_to_string(dir.path("r.json")).unwrap());
    let ran = dir.run_sh(&["--json", "--out", "x"], &script);
    ran.check(0, &["the report is in x/report.json"]);
    check(&fs::read_to_string(dir.path("x/report.json")).unwrap());
    let ran = dir.run_sh(&["--json=gone/r.json"], &format!("{script} rmdir gone"));
    ran.check(125, &[]);
    fs::create_dir(dir.path("gone")).unwrap();
    let ran = dir.run_sh(&["--json=gone/r.json"], &format!("{script} rmdir gone"));
    ran.check(0, &["warning: can't write the report to gone/r.json"]);
}

#[test]
fn a_report_that_cannot_be_written_stops_us_before_the_program() {
    let dir = Dir::new();
    fs::create_dir(dir.path("folder")).unwrap();
    dir.write("old.json", b"old");
    for (target, words) in [
        ("/no/such/folder/r.json", "name another file with --json=FILE: No such file"),
        ("/proc/r.json", "can't write the report to /proc/r.json"),
        ("old.json/r.json", "can't write the report to old.json/r.json"),
        ("folder", "can't write the report to folder, a folder; name a file in it"),
    ] {
        let ran = dir.run_sh(&[&format!("--json={target}")], "touch started");
        ran.check(125, &[words]);
    }
    assert!(!exists(&dir.path("started")) && dir.out_folders().is_empty());
    // What is there stays until there is a report.
    dir.run_sh(&["--json=old.json"], "exit 3").check(3, &["no profile appeared"]);
    assert_eq!(fs::read(dir.path("old.json")).unwrap(), b"old");
    dir.run_sh(&["--json=new.json"], "exit 3").check(3, &[]);
    assert!(!exists(&dir.path("new.json")));
    dir.run_sh(&["--json=/dev/null"], "exit 3").check(3, &[]);
}

#[test]
fn a_space_before_the_reports_file_is_understood() {
    let dir = Dir::new();
    let hint = "for a report in a file: --json=r.json";
    for words in [&["r.json", "--", "true"][..], &["r.json", "true"]] {
        let words = [&["run", "--json"], words].concat();
        dir.run(&words).check(127, &["there is no program r.json in PATH; ", hint]);
    }
    dir.write("r.json", b"{}");
    dir.run(&["run", "--json", "./r.json", "--", "true"]).check(126, &["--json=./r.json"]);
    let ran = dir.run(&["run", "--json", "--", "no-such-program"]);
    ran.check(127, &["in PATH"]);
    assert!(!ran.err.contains("--json="), "{}", ran.err);
}

#[test]
fn an_agent_that_cannot_be_loaded_is_said_before_the_program_starts() {
    let dir = Dir::new();
    dir.write("text.so", b"not a library, but long enough for a head\n");
    dir.write("other.so", &elf(if machine() == 62 { 183 } else { 62 }, 3));
    dir.write("program", &elf(machine(), 2));
    dir.write("short.so", b"\x7fELF");
    for (agent, words) in [
        ("none.so", "none.so: No such file or directory"),
        ("text.so", "text.so: not a library of this system (no ELF header)"),
        ("short.so", "no ELF header"),
        ("other.so", "and this machine is"),
        ("program", "an ELF file, but not a shared library"),
        (".", "not a file"),
    ] {
        let ran = dir.run_sh(&["--agent", agent], "touch started");
        ran.check(125, &["error: the agent given by --agent can't be used", words]);
    }
    let script = ["run", "--", "touch", "started"];
    let ran = dir.corprof(&script).env("CORPROF_AGENT", "gone.so").output().unwrap();
    Ran::of(ran).check(125, &["the agent given by CORPROF_AGENT can't be used: gone.so"]);
    assert!(!exists(&dir.path("started")) && dir.out_folders().is_empty());
}

#[test]
fn an_output_folder_that_cannot_be_written_stops_us_before_the_program() {
    let dir = Dir::new();
    dir.write("file", b"");
    for folder in ["file", "file/inside", "/proc/corprof"] {
        let ran = dir.run_sh(&["--out", folder], "touch started");
        ran.check(125, &["the output folder", folder, "name a folder you may write to with --out"]);
    }
    let script = ["run", "--", "touch", "started"];
    let ran = dir.corprof(&script).env("CORPROF_OUTPUT_DIR", "file/x").output().unwrap();
    Ran::of(ran).check(125, &["can't make the output folder file/x"]);
    let file = dir.run_sh(&["--out", "file"], "touch started");
    file.check(125, &["can't make the output folder file; ", ": it is a file, and no folder"]);
    assert!(!exists(&dir.path("started")));
}

#[test]
fn a_file_is_no_folder_of_other_commands_either() {
    let dir = Dir::new();
    dir.write("a.pb.gz", &support::profile_bytes(1, 0));
    let to = "pyroscope=http://localhost:1";
    for (words, code, said) in [
        (
            &["serve", "--data", "a.pb.gz"][..],
            1,
            "the folder a.pb.gz: it is a file, and no folder; name another with --data",
        ),
        (&["flush", "a.pb.gz", "--to", to], 1, "no folder; `corprof upload` sends it"),
        (
            &["top", "a.pb.gz", "--lines", "--symbols", "a.pb.gz"],
            0,
            "--symbols a.pb.gz is a file, and no folder; name the folder that",
        ),
        (&["top", "a.pb.gz", "--lines", "--symbols", "b"], 0, "--symbols b is not there; name"),
    ] {
        dir.run(words).check(code, &[said]);
    }
}

#[test]
fn what_stands_in_the_way_is_said() {
    let dir = Dir::new();
    let with = |name: &str, value: &str| {
        let ran = dir.corprof(&["run", "--", "true"]).env(name, value).output().unwrap();
        Ran::of(ran)
    };
    with("DOTNET_EnableDiagnostics", "0")
        .check(0, &["warning: DOTNET_EnableDiagnostics=0 is set: .NET will not load the profiler"]);
    with("DOTNET_EnableDiagnostics_Profiler", "0").check(0, &["with it .NET loads no profiler"]);
    let off = with("CORECLR_PROFILER", "{846F5F1C-F9AE-4B07-969E-05C26BC060D8}");
    let ours = with("CORECLR_PROFILER", "{8a3f1c52-6b0d-4e57-9c1e-2d7c0f9b5a41}");
    for ran in [off, ours] {
        assert!(!ran.err.contains("beside the profiler"), "{}", ran.err);
    }
    with("CORECLR_PROFILER_PATH_64", "/other.so").check(0, &[]);
    with("CORPROF_ENABLED", "false").check(0, &["CORPROF_ENABLED is false"]);
}

#[test]
fn another_profiler_keeps_its_place() {
    let dir = Dir::new();
    let other = "{846F5F1C-F9AE-4B07-969E-05C26BC060D8}";
    let ran = dir
        .corprof(&["run", "--", "env"])
        .env("CORECLR_ENABLE_PROFILING", "1")
        .env("CORECLR_PROFILER", other)
        .env("CORECLR_PROFILER_PATH_64", "/other.so")
        .env("CORECLR_NOTIFICATION_PROFILERS", "/third.so={0}")
        .output()
        .unwrap();
    let ran = Ran::of(ran);
    ran.check(0, &["beside the profiler {846F5F1C"]);
    let agent = dir.path("libcorprof.so");
    for line in [
        &format!("CORECLR_PROFILER={other}"),
        "CORECLR_PROFILER_PATH_64=/other.so",
        "CORECLR_ENABLE_NOTIFICATION_PROFILERS=1",
        &format!(
            "CORECLR_NOTIFICATION_PROFILERS=/third.so={{0}};{}={};",
            agent.display(),
            "{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}"
        ),
    ] {
        assert!(ran.out.lines().any(|other| other == line), "no {line:?} in {}", ran.out);
    }
}

#[test]
fn a_damaged_profile_is_named_and_the_others_are_shown() {
    let dir = Dir::new();
    let cut = &profile_bytes(5, 1)[..100];
    let bad = dir.write("bad", cut);
    let script = format!(
        "{} cp {} \"$CORPROF_OUTPUT_DIR\"/shop_5_0001.pb.gz",
        leaves_profile(&dir, &[5]),
        bad.display()
    );
    dir.run_sh(&[], &script)
        .check(0, &["shop_5_0001.pb.gz: the gzip data is cut short", "400 ms CPU"]);
    let script = format!("cp {} \"$CORPROF_OUTPUT_DIR\"/shop_5_0001.pb.gz; exit 9", bad.display());
    dir.run_sh(&[], &script).check(9, &["none of the 1 file in corprof-out/sh-"]);
}

#[test]
fn bad_options_are_usage_errors() {
    let dir = Dir::new();
    dir.run_sh(&["--cpu-interval", "fast"], "touch started").check(2, &["not a duration such as"]);
    dir.run_sh(&["--sampler", "perf"], "touch started").check(2, &["none of timer, scan"]);
    dir.run_sh(&["--cpu-enabled", "false", "--wall-enabled", "0"], "touch started")
        .check(2, &["is nothing to profile"]);
    let mut command = dir.corprof(&["run", "--wall-enabled", "0", "--", "touch", "started"]);
    let ran = Ran::of(command.env("CORPROF_CPU_ENABLED", "false").output().unwrap());
    ran.check(2, &["is nothing to profile"]);
    dir.run(&["run"]).check(2, &["COMMAND"]);
    dir.run(&["run", "--fro", "3s", "--", "touch", "started"])
        .check(2, &["unexpected argument '--fro'", "a similar argument exists: '--for'"]);
    dir.run(&["run", "--upload-peroid", "3s", "--", "touch", "started"])
        .check(2, &["a similar argument exists: '--upload-period'"]);
    dir.run(&["run", "-x", "touch", "started"]).check(2, &["unexpected argument '-x'"]);
    assert!(!exists(&dir.path("started")));
}
