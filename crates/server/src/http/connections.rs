//! Who is connected: no more than so many, and for one more whoever is waited for longest goes.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// All connections.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    stream: Arc<TcpStream>,
    /// From when on it may go for another; `None` while it is our turn to do something.
    may_go: Option<Instant>,
}

/// A connection, in the table until it is dropped or has to go.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Connections>,
    number: u64,
    stream: Arc<TcpStream>,
}

impl Connections {
    /// Up to so many.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is complete in itself.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one in, if need be for another one that goes.
    ///
    /// # Errors
    /// The stream, if there is no place.
    pub(super) fn admit(self: &Arc<Self>, stream: TcpStream) -> Result<Connection, TcpStream> {
        let mut table = self.table();
        let now = Instant::now();
        if table.open.len() >= self.most && !table.make_room(now) {
            return Err(stream);
        }
        let (number, stream) = (table.next, Arc::new(stream));
        table.next += 1;
        table.open.insert(number, Open { stream: Arc::clone(&stream), may_go: Some(now) });
        Ok(Connection { all: Arc::clone(self), number, stream })
    }
}

impl Table {
    /// Closes the connection that may go since longest. Its thread sees the end of the stream; its
    /// place is free at once, since all that the thread still does is to return.
    fn make_room(&mut self, now: Instant) -> bool {
        let may_go = self.open.iter().filter_map(|(number, open)| Some((open.may_go?, *number)));
        let longest = may_go.min().filter(|(since, _)| *since <= now);
        let Some(open) = longest.and_then(|(_, number)| self.open.remove(&number)) else {
            return false;
        };
        // One that the client has closed meanwhile is gone just so.
        let _gone = open.stream.shutdown(Shutdown::Both);
        true
    }
}

impl Connection {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// It is the client's turn: from that time on it may go for another. Says whether it is still
    /// there.
    pub(super) fn waits(&self, from: Instant) -> bool {
        self.set(Some(from))
    }

    /// It is our turn: it stays. Says whether it is still there.
    pub(super) fn works(&self) -> bool {
        self.set(None)
    }

    fn set(&self, may_go: Option<Instant>) -> bool {
        let mut table = self.all.table();
        let open = table.open.get_mut(&self.number);
        open.map(|open| open.may_go = may_go).is_some()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.table().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// A connection's two ends.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn the_one_that_is_waited_for_longest_goes() {
        let all = Connections::new(3);
        let (mut clients, mut open) = (Vec::new(), Vec::new());
        let mut admit = |open: &mut Vec<Connection>| {
            let (client, stream) = pair();
            clients.push(client);
            let admitted = all.admit(stream);
            let is_in = admitted.is_ok();
            open.extend(admitted);
            is_in
        };
        assert!((0..3).all(|_| admit(&mut open)));
        // The first is at work, the second has begun anew, the third has some time still.
        let now = Instant::now();
        assert!(open[0].works() && open[1].waits(now));
        assert!(open[2].waits(now + Duration::from_secs(3_600)));
        assert!(admit(&mut open), "the second goes");
        let there: Vec<bool> = open.iter().map(Connection::works).collect();
        assert_eq!(there, [true, false, true, true]);
        assert!(!admit(&mut open), "all are at work");
        open.remove(0);
        assert!(admit(&mut open), "there is a place again");
        // Whoever went is told by the end of the stream.
        assert_eq!(clients[1].read(&mut [0]).unwrap(), 0);
    }
}
