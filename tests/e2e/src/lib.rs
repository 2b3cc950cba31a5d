//! The truth tests' tools: a real .NET program runs under the built agent, and what it measured of
//! itself is held against the profile.
//!
//! ```no_run
//! use e2e::{Session, View};
//! use rig::Net8;
//!
//! # fn main() -> anyhow::Result<()> {
//! let Some(session) = Session::new("split", "split", Net8)? else { return Ok(()) };
//! let run = session.args(["--share", "90"]).set("CORPROF_CPU_INTERVAL", "5ms").run()?;
//! let mut checks = run.checks();
//! let cpu = run.view.of(|row| row.has("Split.MethodA("));
//! checks.within("MethodA", cpu.cpu_ns, run.number("cpu_a_ns")?, 0.02);
//! checks.done()
//! # }
//! ```
//!
//! Tests that measure run alone on the machine as far as this workspace is concerned: [`Alone`].
//! The machine is still a noisy one, so a check is a ratio, a count, an invariant, or a bound of
//! four standard deviations of the samples taken; and it holds in both directions.
#![forbid(unsafe_code)]

mod again;
mod alone;
pub mod arrivals;
mod built;
mod checks;
mod competitors;
pub mod disk;
mod form;
mod intake;
mod library;
mod run;
pub mod server;
mod session;
mod tasks;
mod view;
mod wine;
pub mod wire;

pub use again::measured;
pub use alone::Alone;
pub use built::{Built, built, hook, oracle};
pub use checks::Checks;
pub use competitors::Competitors;
pub use form::Form;
pub use intake::{Intake, Manners, Received};
pub use library::{launcher, library};
pub use run::{Run, Truth, profiles_in};
pub use session::{Session, add_hook, on_both, on_one};
pub use tasks::Tasks;
pub use view::{LeafSums, Row, View};
pub use wine::{Listed, WindowsTools};
