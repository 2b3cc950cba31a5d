//! A connection on which every wait has an end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use sys::attempts::until_done;
use sys::unix_socket::{self, LocalStream};

use crate::address::{Address, Scheme};
use crate::deadline::Deadline;
use crate::fault::{Fault, Stage};

/// Longest time for one of a host's numbers: another may answer.
const CONNECT_MAX: Duration = Duration::from_secs(3);

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Local(LocalStream),
}

/// A connection with a deadline.
#[derive(Debug)]
pub struct Socket {
    kind: Kind,
    deadline: Deadline,
}

impl Socket {
    /// Connects to an address, in the clear.
    ///
    /// # Errors
    /// Why it can't.
    pub fn connect(address: &Address, deadline: &Deadline) -> Result<Self, Fault> {
        let kind = if address.scheme == Scheme::Unix {
            let left = deadline.left().ok_or(Fault::Time(Stage::Connecting))?;
            let socket = unix_socket::connect(&address.socket, left.min(CONNECT_MAX));
            Kind::Local(socket.map_err(|error| Fault::of(Stage::Connecting, &error))?)
        } else {
            Kind::Tcp(connect_tcp(address, deadline)?)
        };
        Ok(Self { kind, deadline: deadline.clone() })
    }
}

fn connect_tcp(address: &Address, deadline: &Deadline) -> Result<TcpStream, Fault> {
    // The system's own time-outs hold for this; nobody waits for it but this thread.
    let found = (address.host.as_str(), address.port).to_socket_addrs();
    let found = found.map_err(|error| Fault::of(Stage::Resolving, &error))?;
    let mut last = Fault::Io { stage: Stage::Resolving, kind: ErrorKind::NotFound };
    for number in found {
        let left = deadline.left().ok_or(Fault::Time(Stage::Connecting))?;
        match TcpStream::connect_timeout(&number, left.min(CONNECT_MAX)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Fault::of(Stage::Connecting, &error),
        }
    }
    Err(last)
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { kind, deadline } = self;
        until_done(
            || deadline.slice(),
            |slice| match kind {
                Kind::Tcp(socket) => {
                    socket.set_read_timeout(Some(slice))?;
                    socket.read(buffer)
                }
                Kind::Local(socket) => {
                    unix_socket::set_timeouts(socket, slice)?;
                    socket.read(buffer)
                }
            },
        )
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { kind, deadline } = self;
        let left = || deadline.slice();
        match kind {
            Kind::Tcp(socket) => until_done(left, |slice| {
                socket.set_write_timeout(Some(slice))?;
                socket.write(bytes)
            }),
            // A pipe's write can't be tried again.
            Kind::Local(socket) => unix_socket::write_while(socket, bytes, left),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use sys::control_socket::{ControlSocket, place};

    use super::*;
    use crate::deadline::Cut;

    /// Longer than anything here takes, however busy the machine.
    const LONG: Duration = Duration::from_secs(60);

    /// Who listens, and what his place is called in the settings.
    fn silent(name: &str) -> (ControlSocket, Address) {
        let name = format!("corprof-test-{name}-{}", std::process::id());
        let place = place(&std::env::temp_dir(), &name);
        let shown = Path::new(&place).display().to_string().replace('\\', "/");
        let address = Address::parse(&format!("unix://{shown}")).expect("an address");
        (ControlSocket::bind(&place).expect("bound"), address)
    }

    /// A socket or pipe whose owner takes the connection, and neither reads nor answers.
    #[test]
    fn an_agent_that_stands_still_holds_nobody_up() {
        let (silent, address) = silent("silent");
        let begin = Instant::now();
        let deadline = Deadline::after(Duration::from_secs(2), &Cut::default());
        let mut socket = Socket::connect(&address, &deadline).expect("connected");
        // Who says nothing at all is not let in.
        socket.write_all(b"x").expect("written");
        let visitor = silent.accept(Some(LONG)).expect("no trouble").expect("somebody");
        let late = socket.read(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(late, Err(ErrorKind::TimedOut));
        let deadline = Deadline::after(Duration::from_secs(2), &Cut::default());
        let mut socket = Socket { deadline, ..socket };
        // More than any buffer on the way takes.
        assert!(socket.write_all(&vec![0; 16 << 20]).is_err());
        drop(visitor);
        assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
        silent.remove();
    }

    #[test]
    fn the_end_that_is_brought_forward_ends_a_wait() {
        let (silent, address) = silent("cut");
        let cut = Cut::default();
        let mut socket =
            Socket::connect(&address, &Deadline::after(LONG, &cut)).expect("connected");
        let begin = Instant::now();
        cut.after(Duration::from_millis(200));
        let late = socket.read(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(late, Err(ErrorKind::TimedOut));
        assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
        silent.remove();
    }
}
