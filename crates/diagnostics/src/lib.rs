//! .NET processes from outside: what `/proc` tells of them, and what their runtime's diagnostics
//! server answers.
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! use diagnostics::{Guid, Socket};
//!
//! let socket = Socket::of(1234).map_err(|error| error.to_string())?;
//! println!("{}", socket.process_info().map_err(|error| error.to_string())?.command_line);
//! let class = Guid::parse("{8A3F1C52-6B0D-4E57-9C1E-2D7C0F9B5A41}").ok_or("no GUID")?;
//! let agent = Path::new("/opt/corprof/libcorprof.so");
//! socket
//!     .attach_profiler(Duration::from_secs(10), class, agent, b"CORPROF_CPU_INTERVAL=20ms")
//!     .map_err(|error| error.to_string())?;
//! # Ok::<(), String>(())
//! ```
//!
//! The protocol is that of `documentation/design-docs/ipc-protocol.md` in dotnet/diagnostics.
#![forbid(unsafe_code)]

#[cfg(unix)]
mod access;
mod attach_error;
mod command;
mod exchange;
#[cfg(unix)]
mod fit;
mod guid;
mod hresult;
mod library;
mod message;
mod payload;
#[cfg(unix)]
mod process;
mod process_info;
#[cfg(unix)]
mod profilers;
mod request_error;
#[cfg(unix)]
mod runtime;
#[cfg(unix)]
mod socket;
#[cfg(unix)]
mod status;
mod switches;
mod transport;
#[cfg(unix)]
mod unix_endpoint;
mod unreachable;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use access::{unreadable_part, unwritable_part};
pub use attach_error::AttachError;
pub use command::Command;
#[cfg(unix)]
pub use fit::{check_fit, check_system};
pub use guid::Guid;
pub use hresult::Hresult;
pub use library::{Libc, Library, NotALibrary, machine_name};
pub use message::{Frame, Malformed};
#[cfg(unix)]
pub use process::{Hidden, Process};
pub use process_info::ProcessInfo;
#[cfg(unix)]
pub use profilers::{NamedProfiler, OtherProfiler, other_profilers, our_agent};
pub use request_error::RequestError;
#[cfg(unix)]
pub use runtime::{Runtime, libc_of};
#[cfg(unix)]
pub use socket::Socket;
#[cfg(unix)]
pub use status::Status;
pub use switches::{Switch, switched_off};
pub use transport::{Endpoint, Stream};
#[cfg(unix)]
pub use unix_endpoint::UnixEndpoint;
pub use unreachable::Unreachable;
#[cfg(unix)]
pub use unreachable::user_name;
#[cfg(windows)]
pub use windows::{Hidden, Pipe, Socket, listening};
