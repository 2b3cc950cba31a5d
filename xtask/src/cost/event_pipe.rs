//! The runtime's own sampling profiler, EventPipe, switched on and off over its diagnostics socket:
//! the same sessions as those that `DOTNET_EnableEventPipe` begins with the process, but without
//! an end. Its samples come every millisecond; the runtime has no setting for that.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use diagnostics::{Command, Frame, Socket};

const STOP: Command = Command::Other(2, 1);
const COLLECT: Command = Command::Other(2, 3);
const HEADER_BYTES: usize = 20;
/// What `dotnet-trace` and `DOTNET_EventPipeConfig` name for CPU samples.
const SAMPLER: &str = "Microsoft-DotNETCore-SampleProfiler";
const INFORMATIONAL: u32 = 4;
/// `DOTNET_EventPipeCircularMB` by default.
const BUFFER_MB: u32 = 256;
const NETTRACE: u32 = 1;
/// Longer than the runtime takes for an answer, however many threads it has.
const LIMIT: Duration = Duration::from_secs(60);

/// A session at work.
pub struct Session {
    socket: PathBuf,
    id: u64,
    /// Takes what comes, and returns how many bytes that were.
    reader: JoinHandle<u64>,
}

impl Session {
    /// Starts one in a process.
    pub fn start(pid: u32) -> Result<Self> {
        let socket = Socket::of(pid).map_err(|error| anyhow!("{error}"))?.path().to_owned();
        let (payload, stream) = ask(&socket, COLLECT, providers())?;
        let id = u64::from_le_bytes(payload.as_slice().try_into().context("no session")?);
        let reader = thread::spawn(move || drain(stream));
        Ok(Self { socket, id, reader })
    }

    /// Ends it; returns how many bytes it gave.
    pub fn stop(self) -> Result<u64> {
        ask(&self.socket, STOP, self.id.to_le_bytes().to_vec())?;
        self.reader.join().map_err(|_| anyhow!("the reader panicked"))
    }
}

/// The arguments of a session of the sampler alone, without the names of all methods at its end.
fn providers() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(BUFFER_MB.to_le_bytes());
    bytes.extend(NETTRACE.to_le_bytes());
    bytes.push(0);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(INFORMATIONAL.to_le_bytes());
    for text in [SAMPLER, ""] {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        bytes.extend((units.len() as u32).to_le_bytes());
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    }
    bytes
}

fn ask(socket: &Path, command: Command, payload: Vec<u8>) -> Result<(Vec<u8>, UnixStream)> {
    let bytes = Frame { command, payload }.encode().context("too long")?;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(&bytes)?;
    let mut answer = vec![0; HEADER_BYTES];
    stream.read_exact(&mut answer).context("the runtime does not answer")?;
    let size = usize::from(u16::from_le_bytes([answer[14], answer[15]]));
    answer.resize(size.max(HEADER_BYTES), 0);
    stream.read_exact(&mut answer[HEADER_BYTES..])?;
    let frame = Frame::decode(&answer).map_err(|error| anyhow!("{error}"))?;
    ensure!(frame.command == Command::Ok, "the runtime refuses: {:?}", frame.payload);
    Ok((frame.payload, stream))
}

/// Reads to the end, and keeps nothing.
fn drain(mut stream: UnixStream) -> u64 {
    io::copy(&mut stream, &mut io::sink()).unwrap_or(0)
}
