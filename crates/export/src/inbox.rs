//! Profiles on their way to the thread that sends: whoever hands one over neither waits for a disk
//! nor for a network.
//!
//! Usually it is empty: the thread takes what comes at once, unless it is busy with a request or
//! with a disk that doesn't answer.

use std::collections::VecDeque;

use config::Target;
use model::limits::{EXPORT_INBOX_MAX, EXPORT_QUEUE_BYTES_MAX};

use crate::parcel::Parcel;
use crate::status::Status;

/// What was handed over and not taken yet; bounded, the oldest goes first.
#[derive(Debug, Default)]
pub struct Inbox {
    parcels: VecDeque<Parcel>,
    bytes: u64,
    /// For whom the parcels were that had to go, since they were last asked for.
    dropped: Vec<(Target, u64)>,
}

/// What has come in since the last time.
#[derive(Debug, Default)]
pub struct Arrived {
    /// The parcels, the oldest first.
    pub parcels: VecDeque<Parcel>,
    /// How many of each target had to go before anybody took them.
    pub dropped: Vec<(Target, u64)>,
}

impl Inbox {
    /// Takes a parcel; for one too many the oldest go, and are counted.
    pub fn put(&mut self, parcel: Parcel) {
        self.bytes = self.bytes.saturating_add(size(&parcel));
        self.parcels.push_back(parcel);
        while self.parcels.len() > EXPORT_INBOX_MAX || self.bytes > EXPORT_QUEUE_BYTES_MAX {
            let Some(oldest) = self.parcels.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(size(&oldest));
            self.count(oldest.target);
        }
    }

    fn count(&mut self, target: Target) {
        match self.dropped.iter_mut().find(|(of, _)| *of == target) {
            Some((_, n)) => *n = n.saturating_add(1),
            None => self.dropped.push((target, 1)),
        }
    }

    /// Gives all away.
    pub fn take(&mut self) -> Arrived {
        let Self { parcels, dropped, .. } = std::mem::take(self);
        Arrived { parcels, dropped }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parcels.is_empty() && self.dropped.is_empty()
    }

    /// Adds what is in it to how it goes with a target.
    pub fn add_to(&self, status: &mut Status) {
        let ours = self.parcels.iter().filter(|parcel| parcel.target == status.target);
        for parcel in ours {
            status.queued.0 = status.queued.0.saturating_add(1);
            status.queued.1 = status.queued.1.saturating_add(size(parcel));
        }
        let dropped = self.dropped.iter().filter(|(target, _)| *target == status.target);
        for (_, n) in dropped {
            status.counts.dropped = status.counts.dropped.saturating_add(*n);
        }
    }
}

fn size(parcel: &Parcel) -> u64 {
    parcel.body.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Counts;

    fn parcel(target: Target, n: u64, bytes: usize) -> Parcel {
        Parcel {
            target,
            start_unix_ns: n,
            content_type: "x".into(),
            is_gzipped: false,
            body: vec![0; bytes].into(),
        }
    }

    fn times(arrived: &Arrived) -> Vec<u64> {
        arrived.parcels.iter().map(|parcel| parcel.start_unix_ns).collect()
    }

    #[test]
    fn too_many_cost_the_oldest_and_are_counted_for_whom() {
        let mut inbox = Inbox::default();
        let many = EXPORT_INBOX_MAX as u64 + 3;
        for n in 0..many {
            let target = if n == 1 { Target::Otlp } else { Target::Pyroscope };
            inbox.put(parcel(target, n, 10));
        }
        let arrived = inbox.take();
        assert_eq!(times(&arrived), (3..many).collect::<Vec<_>>());
        assert_eq!(arrived.dropped, [(Target::Pyroscope, 2), (Target::Otlp, 1)]);
        assert!(inbox.is_empty(), "all was given away");
    }

    #[test]
    fn too_large_ones_cost_the_oldest() {
        let half = usize::try_from(EXPORT_QUEUE_BYTES_MAX / 2).expect("it fits");
        let mut inbox = Inbox::default();
        for n in 0..4 {
            inbox.put(parcel(Target::Otlp, n, half));
        }
        inbox.put(parcel(Target::Otlp, 9, 1));
        let arrived = inbox.take();
        assert_eq!((times(&arrived), arrived.dropped), (vec![3, 9], vec![(Target::Otlp, 3)]));
        inbox.put(parcel(Target::Otlp, 5, half * 2 + 1));
        assert_eq!(times(&inbox.take()), [0; 0], "one that is larger than all there is room for");
    }

    #[test]
    fn what_is_in_it_is_part_of_how_it_goes() {
        let mut inbox = Inbox::default();
        for n in 0..=EXPORT_INBOX_MAX as u64 {
            inbox.put(parcel(Target::Otlp, n, 10));
        }
        let status = |target| Status {
            target,
            address: String::new(),
            counts: Counts { dropped: 2, ..Counts::default() },
            queued: (1, 5),
            spooled: (0, 0),
            error: None,
        };
        let (mut ours, mut others) = (status(Target::Otlp), status(Target::Pyroscope));
        inbox.add_to(&mut ours);
        inbox.add_to(&mut others);
        let in_it = EXPORT_INBOX_MAX as u64;
        assert_eq!((ours.queued, ours.counts.dropped), ((1 + in_it, 5 + 10 * in_it), 3));
        assert_eq!((others.queued, others.counts.dropped), ((1, 5), 2));
    }
}
