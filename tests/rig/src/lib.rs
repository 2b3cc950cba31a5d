//! The rig: real .NET runtimes, a C# compiler, and the test programs that run on them.
//!
//! ```no_run
//! use rig::{Net8, Rig};
//!
//! # fn main() -> anyhow::Result<()> {
//! let rig = Rig::ensure()?;
//! let mut command = rig.app("split")?.command(Net8)?;
//! command.args(["--share", "90", "--seconds", "5"]);
//! let outcome = rig::run(command, std::time::Duration::from_secs(60))?;
//! println!("{}", outcome.truth()?["thread_cpu_ns"]);
//! # Ok(())
//! # }
//! ```
//!
//! Everything stands under `target/rig`, comes from the public package registries by their own
//! clients, and is pinned by version and checksum. What cannot be had is [`Unavailable`], with the
//! reason; a test that needs it says so through [`Rig::skip`] and is counted there.
#![forbid(unsafe_code)]

mod rig;

mod app;
mod browser;
mod cargo;
mod compile;
mod managed;
mod outcome;
mod runtime;
mod skip;
mod unavailable;
mod workload;

mod archive;
mod bundle;
mod client;
mod component;
mod deps;
mod digest;
mod install;
mod layout;
mod lock;
mod package;
mod progress;
mod user_dotnet;
mod wine;

pub use app::{APPS, App};
pub use browser::Browser;
pub use cargo::cargo;
pub use compile::{CompileOptions, Compiler, OutputKind};
pub use managed::Managed;
pub use outcome::{Outcome, Overdue, run, run_by_files, run_watched};
pub use rig::Rig;
pub use runtime::{
    Frameworks, Runtime,
    RuntimeVersion::{self, Net8, Net9, Net10, Net31},
};
pub use unavailable::Unavailable;
pub use wine::{Dotnet, Wine};
pub use workload::CLASSES;
