//! A folder of its own for each test, the built binary, an agent that is only a header, and
//! profiles with known numbers.
#![allow(dead_code, missing_docs, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "test support")]

pub mod http;
pub mod made;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use model::{FrameKind, Loss, ThreadState};
use profile::{
    Added, Aggregate, Frame, FrameId, ModuleId, ModuleInfo, Period, Profile, SampleKey, SelfReport,
    ThreadKey, Values,
};

pub const MS: u64 = 1_000_000;
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A folder that goes with the test.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corprof-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        let dir = Self(path.canonicalize().unwrap());
        dir.write("libcorprof.so", &elf(machine(), 3));
        dir
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The binary, in this folder, with the agent that is only a header.
    pub fn corprof(&self, arguments: &[&str]) -> Command {
        // Whoever runs the tests may ignore signals, as nohup and shells in the background do; and
        // what is ignored stays so in all children.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,QUIT,TERM,USR1,USR2");
        command.arg(env!("CARGO_BIN_EXE_corprof"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["CORPROF_", "CORECLR_", "DOTNET_", "COMPlus_"].iter().any(|p| name.starts_with(p)) {
                command.env_remove(&*name);
            }
        }
        command
            .args(arguments)
            .current_dir(&self.0)
            .env("CORPROF_AGENT", self.path("libcorprof.so"))
            .stdin(Stdio::null());
        command
    }

    /// Runs to the end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.corprof(arguments).output().unwrap())
    }

    /// Runs a shell command under `corprof run` with some flags.
    pub fn run_sh(&self, flags: &[&str], script: &str) -> Ran {
        let arguments = [&["run"], flags, &["--", "sh", "-c", script]].concat();
        self.run(&arguments)
    }

    /// The folders that runs have made.
    pub fn out_folders(&self) -> Vec<PathBuf> {
        let Ok(list) = fs::read_dir(self.path("corprof-out")) else { return Vec::new() };
        list.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails unless the code is this and standard error has all these.
    pub fn check(&self, code: i32, err_has: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in err_has {
            assert!(self.err.contains(part), "no {part:?} in: {}", self.err);
        }
    }
}

/// ELF's number for this processor.
pub fn machine() -> u8 {
    if cfg!(target_arch = "aarch64") { 183 } else { 62 }
}

/// The head of an ELF file.
pub fn elf(machine: u8, kind: u8) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend([kind, 0, machine, 0]);
    bytes.resize(64, 0);
    bytes
}

/// A profile of `pid`: 300 ms CPU in `Prices.Sum` under `Main`, 700 ms asleep, 100 ms in the GC.
pub fn profile_bytes(pid: u64, seq: u64) -> Vec<u8> {
    profile::pprof::write(&profile_of(pid, seq), Vec::new()).unwrap()
}

/// A frame that has no lines.
pub fn frame(
    aggregate: &mut Aggregate,
    name: &str,
    kind: FrameKind,
    module: Option<ModuleId>,
) -> FrameId {
    let raw_name = "";
    aggregate.frame(&Frame { name, raw_name, module, address: 0, kind, file: None, line: None })
}

/// Adds samples that were in a managed method and nothing else.
pub fn add_samples(
    aggregate: &mut Aggregate,
    method: &str,
    module: Option<ModuleId>,
    values: Values,
) {
    let frame = frame(aggregate, method, FrameKind::Managed, module);
    let stack = aggregate.stack([frame]);
    let thread = ThreadKey { tid: 7, generation: 0 };
    let key = SampleKey { stack, thread, state: None, span: None, labels: 0 };
    assert_eq!(aggregate.add(&key, values), Added::Kept);
}

/// The profile of which these are the bytes.
pub fn profile_of(pid: u64, seq: u64) -> Profile {
    let mut aggregate = Aggregate::default();
    let shop =
        aggregate.module(&ModuleInfo { file: "/app/Shop.dll", build_id: "", start: 0, limit: 0 });
    let mut frame = |name: &str, kind| {
        let module = if kind == FrameKind::Managed { shop } else { None };
        frame(&mut aggregate, name, kind, module)
    };
    let main = frame("Shop.Program.Main(string[])", FrameKind::Managed);
    let sum = frame("Shop.Prices.Sum(int)", FrameKind::Managed);
    let sleep = frame("nanosleep", FrameKind::Native);
    let gc = frame("[garbage collector]", FrameKind::Synthetic);
    let thread = ThreadKey { tid: 100, generation: 0 };
    aggregate.thread_name(thread, "main");
    let samples: [(&[_], _, _); 3] = [
        (
            &[sum, sum, main],
            None,
            Values { count: 30, cpu_ns: 300 * MS, wall_ns: 0, ..Values::default() },
        ),
        (
            &[sleep, main],
            Some(ThreadState::Sleeping),
            Values { count: 0, cpu_ns: 0, wall_ns: 700 * MS, ..Values::default() },
        ),
        (&[gc], None, Values { count: 10, cpu_ns: 100 * MS, wall_ns: 0, ..Values::default() }),
    ];
    for (frames, state, values) in samples {
        let stack = aggregate.stack(frames.iter().copied());
        assert_eq!(
            aggregate.add(&SampleKey { stack, thread, state, span: None, labels: 0 }, values),
            Added::Kept
        );
    }
    let period = Period {
        start_unix_ns: 1_790_000_000 * 1000 * MS,
        duration_ns: 1000 * MS,
        cpu_interval_ns: 10 * MS,
    };
    let mut profile = aggregate.take(period).profile;
    let mut report = SelfReport {
        service: "shop".into(),
        pid,
        seq,
        own_cpu_ns: 4 * MS,
        own_memory_bytes: 3 << 20,
        process_cpu_ns: 500 * MS,
        sampled_cpu_ns: 404 * MS,
        ..SelfReport::default()
    };
    report.losses.add(Loss::RingFull, 3);
    profile.report = Some(report);
    profile
}

/// Whether a condition comes true within some seconds.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        condition()
    })
}

/// Whether the path is there.
pub fn exists(path: &Path) -> bool {
    path.exists()
}
