//! `corprof doctor`: each obstacle is planted, and found; nothing else is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod support;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Dir, Ran, elf, machine};

/// A folder with an agent and its hook, so that nothing is to be found.
fn clean() -> Dir {
    let dir = Dir::new();
    dir.write("Corprof.Spans.dll", b"MZ");
    dir
}

/// `corprof doctor --json` with variables; none of those of who runs the tests that matter.
fn doctor(dir: &Dir, variables: &[(&str, &str)]) -> Ran {
    let mut command = dir.corprof(&["doctor", "--json"]);
    let kept = variables.iter().copied();
    Ran::of(command.env_remove("TMPDIR").envs(kept).output().unwrap())
}

/// The checks that were not in order: `level check`.
fn found(ran: &Ran) -> Vec<String> {
    let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let checks = value["checks"].as_array().unwrap().iter();
    let bad = checks.filter(|check| check["level"] != "ok");
    bad.map(|check| {
        assert!(check["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{check}");
        format!("{} {}", check["level"].as_str().unwrap(), check["check"].as_str().unwrap())
    })
    .collect()
}

/// What this machine has by itself, as limits of the container that the tests run in.
fn of_this_machine() -> Vec<String> {
    let found = found(&doctor(&clean(), &[]));
    assert!(!found.iter().any(|check| check.starts_with("prevents")), "{found:?}");
    found
}

/// What a plant adds.
fn added(ran: &Ran) -> Vec<String> {
    let before = of_this_machine();
    found(ran).into_iter().filter(|check| !before.contains(check)).collect()
}

#[test]
fn a_clean_environment_has_exit_code_0() {
    let ran = doctor(&clean(), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = Ran::of(clean().corprof(&["doctor", "--all"]).output().unwrap());
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.out.contains("can be profiled") && text.out.contains("agent  "), "{text:?}");
}

#[test]
fn variables_are_found_and_decide_on_the_exit_code() {
    let dir = clean();
    let other = [
        ("CORECLR_ENABLE_PROFILING", "1"),
        ("CORECLR_PROFILER", "{846F5F1C-F9AE-4B07-969E-05C26BC060D8}"),
        ("CORECLR_PROFILER_PATH", "/opt/Datadog.Trace.ClrProfiler.Native.so"),
    ];
    for (variables, code, expected) in [
        (&[("DOTNET_EnableDiagnostics", "0")][..], 1, "prevents switches"),
        (&[("DOTNET_EnableDiagnostics_Profiler", "0")], 1, "prevents switches"),
        (&[("COMPlus_EnableDiagnostics", "0")], 1, "prevents switches"),
        (&[("DOTNET_EnableDiagnostics_IPC", "0")], 0, "note switches"),
        (&other, 0, "note other-profiler"),
        (&[("CORPROF_ENABLED", "false")], 1, "prevents settings"),
        (&[("CORPROF_CPU_INTERVAL", "soon")], 0, "degrades settings"),
        (&[("CORPROF_SERVER_URL", "localhost:nowhere")], 0, "degrades export"),
        (&[("DOTNET_STARTUP_HOOKS", "/nowhere/hook.dll")], 1, "prevents startup-hooks"),
        (&[("CORPROF_OUTPUT_DIR", "/proc/sys/profiles")], 1, "prevents output-folder"),
        (&[("TMPDIR", "/proc/sys")], 0, "note temporary-folder"),
    ] {
        let ran = doctor(&dir, variables);
        assert_eq!(ran.code, code, "{variables:?}: {ran:?}");
        assert_eq!(added(&ran), [expected], "{variables:?}");
    }
}

#[test]
fn an_agent_that_does_not_fit_is_found() {
    let other = if machine() == 62 { 183 } else { 62 };
    for (bytes, words) in [
        (elf(other, 3), "made for"),
        (b"text".to_vec(), "no ELF header"),
        (elf(machine(), 2), "not a shared library"),
    ] {
        let dir = clean();
        dir.write("libcorprof.so", &bytes);
        let ran = doctor(&dir, &[]);
        assert_eq!((ran.code, added(&ran)), (1, vec!["prevents agent".to_owned()]), "{ran:?}");
        assert!(ran.out.contains(words), "{ran:?}");
    }
    let dir = clean();
    fs::remove_file(dir.path("libcorprof.so")).unwrap();
    assert_eq!(added(&doctor(&dir, &[])), ["prevents agent"]);
    // Without the hook samples don't know their requests.
    assert_eq!(added(&doctor(&Dir::new(), &[])), ["degrades agent"]);
}

#[test]
fn an_agent_that_needs_a_newer_glibc_is_found() {
    let dir = clean();
    let agent = with_glibc(b"GLIBC_9.99\0");
    dir.write("libcorprof.so", &agent);
    let ran = doctor(&dir, &[]);
    assert_eq!((ran.code, added(&ran)), (1, vec!["prevents agent".to_owned()]), "{ran:?}");
    assert!(ran.out.contains("needs glibc 9.99, and the process has glibc 2."), "{ran:?}");
    dir.write("libcorprof.so", &with_glibc(b"GLIBC_2.2.5\0"));
    assert_eq!(added(&doctor(&dir, &[])), [""; 0]);
}

/// An ELF library that needs this version of glibc: the header, a table of two sections, one
/// version with its name.
fn with_glibc(name: &[u8]) -> Vec<u8> {
    const STRINGS: u64 = 64;
    const NEEDS: u64 = 128;
    const SECTIONS: u64 = 192;
    let mut bytes = elf(machine(), 3);
    bytes[20] = 1;
    bytes[40..48].copy_from_slice(&SECTIONS.to_le_bytes());
    // Sizes of a header and of a section's; three of these, the first empty, the second names.
    bytes[52..64].copy_from_slice(&[64, 0, 56, 0, 0, 0, 64, 0, 3, 0, 1, 0]);
    bytes.push(0);
    bytes.extend(name);
    bytes.resize(usize::try_from(NEEDS).unwrap(), 0);
    // One file with one version; the version's name is at 1.
    bytes.extend([1, 0, 1, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.resize(usize::try_from(SECTIONS).unwrap(), 0);
    let section = |kind: u32, offset: u64, size: u64, link: u32, info: u32| {
        let mut header = vec![0; 4];
        header.extend(kind.to_le_bytes());
        header.extend([0; 16]);
        header.extend(offset.to_le_bytes());
        header.extend(size.to_le_bytes());
        header.extend(link.to_le_bytes());
        header.extend(info.to_le_bytes());
        header.extend([0; 16]);
        header
    };
    bytes.extend(section(0, 0, 0, 0, 0));
    bytes.extend(section(3, STRINGS, 64, 0, 0));
    bytes.extend(section(0x6fff_fffe, NEEDS, 32, 1, 1));
    bytes
}

#[test]
fn a_limit_of_pending_signals_is_found() {
    let dir = clean();
    let command = dir.corprof(&["doctor", "--json"]);
    let mut limited = Command::new("prlimit");
    limited.args(["--sigpending=10", "--"]).arg(command.get_program()).args(command.get_args());
    limited.current_dir(&dir.0).env("CORPROF_AGENT", dir.path("libcorprof.so"));
    let ran = Ran::of(limited.env_remove("TMPDIR").output().unwrap());
    assert_eq!((ran.code, added(&ran)), (0, vec!["degrades timers".to_owned()]), "{ran:?}");
}

#[test]
fn a_folder_that_is_a_file_is_found() {
    let dir = clean();
    dir.write("corprof-out", b"a file");
    let ran = doctor(&dir, &[]);
    assert_eq!((ran.code, added(&ran)), (1, vec!["prevents output-folder".to_owned()]));
}

#[test]
fn processes_that_are_not_there_or_not_of_dotnet_are_said() {
    let dir = clean();
    dir.run(&["doctor", "4194304"]).check(1, &["process 4194304: there is no such process"]);
    dir.run(&["doctor", "all"]).check(2, &[]);
    let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let ran = dir.run(&["doctor", &sleeper.id().to_string()]);
    let listed = dir.run(&["ps", "--json"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("it is no .NET process"), "{ran:?}");
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let rows = listed["processes"].as_array().unwrap();
    assert!(!rows.iter().any(|row| row["pid"] == sleeper.id()), "{listed}");
}
