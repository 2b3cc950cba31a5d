//! What waits for whom, and what happens next: all decisions, without network, thread or clock.
//!
//! Each target has a lane of its own with its own waits: one that is down holds up no other.
//! A profile is tried at once from memory. If that fails, it goes to the spool, and so does what
//! comes while the lane waits; the oldest is sent first ([`Turns`]). What can't be kept on disk
//! waits in memory up to a bound. Times are of the monotonic clock, in nanoseconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use config::{LogLevel, Target};
use model::limits::{EXPORT_QUEUE_BYTES_MAX, EXPORT_QUEUE_MAX};

use crate::backoff::Backoff;
use crate::destination::Destination;
use crate::fault::Fault;
use crate::parcel::Parcel;
use crate::place::Place;
use crate::request::{Answer, Request};
use crate::spool::{Survives, Waiting};
use crate::status::{Counts, Status};
use crate::turns::Turns;
use crate::verdict::{Verdict, Why};

/// Says something to whoever runs the program.
pub type Say = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Refusals of one target that are said; a server that invents new ones is not heeded for ever.
const REFUSALS_SAID: usize = 8;

/// How far a clock may be set back, in nanoseconds, for profiles to keep their order: one that is
/// further off was wrong before.
const SET_BACK_MAX_NS: u64 = 24 * 3600 * 1_000_000_000;

/// One request to make.
#[derive(Debug)]
pub struct Job {
    lane: usize,
    /// When the profile began.
    time_ns: u64,
    what: What,
    /// The request.
    pub request: Request,
}

#[derive(Debug)]
enum What {
    Queued(u64),
    Spooled(Waiting),
}

struct Queued {
    number: u64,
    parcel: Parcel,
}

struct Lane {
    destination: Destination,
    name: String,
    queue: VecDeque<Queued>,
    /// Of the profile that came last, the time by which it is lined up.
    newest_ns: u64,
    turns: Turns,
    backoff: Backoff,
    counts: Counts,
    error: Option<String>,
    refusals: Vec<String>,
}

impl Lane {
    fn queue_bytes(&self) -> u64 {
        self.queue.iter().map(|queued| queued.parcel.body.len() as u64).sum()
    }

    /// The time by which a profile is lined up that began at this one: a clock that was set back
    /// makes no profile older than those before it.
    fn in_order(&mut self, time_ns: u64) -> u64 {
        let is_set_back = (1..=SET_BACK_MAX_NS).contains(&self.newest_ns.saturating_sub(time_ns));
        self.newest_ns = if is_set_back { self.newest_ns.saturating_add(1) } else { time_ns };
        self.newest_ns
    }

    fn is_full(&self) -> bool {
        self.queue.len() > EXPORT_QUEUE_MAX || self.queue_bytes() > EXPORT_QUEUE_BYTES_MAX
    }
}

/// All that waits.
pub struct Core {
    lanes: Vec<Lane>,
    place: Place,
    say: Say,
    number: u64,
    /// The lane that has had its turn last.
    last: usize,
    /// Whether it was said that the spool can't be used.
    has_complained: bool,
}

impl Core {
    /// Nothing waits yet.
    #[must_use]
    pub fn new(destinations: Vec<Destination>, place: Place, say: Say, seed: u64) -> Self {
        let lane = |(n, destination): (usize, Destination)| Lane {
            name: destination.lane(),
            destination,
            queue: VecDeque::new(),
            newest_ns: 0,
            turns: Turns::default(),
            backoff: Backoff::new(seed.wrapping_add(n as u64 * 0x9e37_79b9)),
            counts: Counts::default(),
            error: None,
            refusals: Vec::new(),
        };
        let lanes = destinations.into_iter().enumerate().map(lane).collect();
        Self { lanes, place, say, number: 0, last: 0, has_complained: false }
    }

    /// The targets that there are lanes for.
    pub fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        self.lanes.iter().map(|lane| lane.destination.target)
    }

    /// Takes a profile that is ready.
    pub fn accept(&mut self, mut parcel: Parcel) {
        self.number = self.number.saturating_add(1);
        let number = self.number;
        let Some(at) = self.lanes.iter().position(|lane| lane.destination.target == parcel.target)
        else {
            return;
        };
        if let Some(lane) = self.lanes.get_mut(at) {
            parcel.start_unix_ns = lane.in_order(parcel.start_unix_ns);
            lane.queue.push_back(Queued { number, parcel });
        }
        while self.lanes.get(at).is_some_and(Lane::is_full) {
            self.spool_front(at);
        }
    }

    /// Counts profiles that were given up before they came here.
    pub fn dropped(&mut self, target: Target, n: u64) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.destination.target == target) {
            lane.counts.dropped = lane.counts.dropped.saturating_add(n);
        }
    }

    /// Moves the oldest of a queue to the disk, or gives it up if there is no room for it anywhere.
    fn spool_front(&mut self, at: usize) {
        if self.keep_front(at, Survives::Machine) {
            return;
        }
        if let Some(lane) = self.lanes.get_mut(at).filter(|lane| lane.is_full()) {
            lane.queue.pop_front();
            lane.counts.dropped = lane.counts.dropped.saturating_add(1);
        }
    }

    /// Moves the oldest of a queue to the disk; returns whether that could be done.
    fn keep_front(&mut self, at: usize, survives: Survives) -> bool {
        let Some(lane) = self.lanes.get_mut(at) else { return false };
        let Some(front) = lane.queue.front() else { return false };
        let kept =
            self.place.make().and_then(|spool| spool.put(&lane.name, &front.parcel, survives));
        match kept {
            Ok(lost) => {
                lane.queue.pop_front();
                self.has_complained = false;
                self.count_dropped(&lost);
                true
            }
            Err(error) => {
                let folder = self.place.folder();
                if !std::mem::replace(&mut self.has_complained, true)
                    && error.kind() != std::io::ErrorKind::Unsupported
                {
                    let folder = folder.display();
                    (self.say)(
                        LogLevel::Warn,
                        &format!(
                            "profiles that could not be sent can't be kept in {folder}: {error}. \
                             They wait in memory, and not for long. Set CORPROF_SPOOL_DIR to a \
                             folder with room that this user may write to"
                        ),
                    );
                }
                false
            }
        }
    }

    fn count_dropped(&mut self, lost: &[Waiting]) {
        for waiting in lost {
            let lane = self.lanes.iter_mut().find(|lane| lane.name == waiting.lane);
            match lane {
                Some(lane) => lane.counts.dropped = lane.counts.dropped.saturating_add(1),
                None => (self.say)(
                    LogLevel::Warn,
                    "a profile that waited for another target was removed: the spool is full. Send \
                     what waits with `corprof flush`, or raise CORPROF_SPOOL_MIB",
                ),
            }
        }
    }

    /// Puts on disk what can't be sent now anyway.
    pub fn settle(&mut self, now_ns: u64) {
        for at in 0..self.lanes.len() {
            let waits = |lane: &Lane| lane.backoff.until_ns() > now_ns && !lane.queue.is_empty();
            while self.lanes.get(at).is_some_and(waits) && self.keep_front(at, Survives::Machine) {}
        }
    }

    /// Puts on disk what has to wait until older ones that are there have been sent: who is killed
    /// loses what is in memory, and after a long outage that may take minutes.
    pub fn line_up(&mut self) {
        for at in 0..self.lanes.len() {
            while self.is_behind(at) && self.keep_front(at, Survives::Machine) {}
        }
    }

    fn is_behind(&self, at: usize) -> bool {
        let Some(lane) = self.lanes.get(at) else { return false };
        let Some(front) = lane.queue.front() else { return false };
        let is_next = |time_ns| !lane.turns.is_passed(time_ns);
        let oldest = self.place.made().and_then(|spool| spool.oldest(&lane.name, is_next));
        is_next(front.parcel.start_unix_ns)
            && oldest.is_some_and(|oldest| oldest.time_ns <= front.parcel.start_unix_ns)
    }

    /// Puts all on disk that waits in memory, at the end; what can't be kept is lost and said. The
    /// system may write it later: a process can't end while one of its threads waits for a disk.
    pub fn spool_all(&mut self) {
        for at in 0..self.lanes.len() {
            while self.lanes.get(at).is_some_and(|lane| !lane.queue.is_empty()) {
                if !self.keep_front(at, Survives::Process) {
                    self.give_up(at);
                }
            }
        }
        self.place.close();
    }

    fn give_up(&mut self, at: usize) {
        let Some(lane) = self.lanes.get_mut(at) else { return };
        let lost = lane.queue.len() as u64;
        lane.queue.clear();
        lane.counts.dropped = lane.counts.dropped.saturating_add(lost);
        let place = &lane.destination.address;
        let text =
            format!("{lost} profiles for {place} could neither be sent nor kept: they are lost");
        (self.say)(LogLevel::Error, &text);
    }

    /// Takes over what processes left that have ended.
    pub fn adopt(&mut self) {
        let lanes: Vec<&str> = self.lanes.iter().map(|lane| lane.name.as_str()).collect();
        let wanted = |name: &str| lanes.contains(&name).then(|| name.to_owned());
        adopt(&mut self.place, &self.say, wanted);
    }

    /// The same for all that is of one of our targets, for whatever address it was.
    pub fn adopt_all(&mut self) {
        let lanes: Vec<(&str, &str)> = (self.lanes.iter())
            .map(|lane| (lane.destination.target.name(), lane.name.as_str()))
            .collect();
        let wanted = |name: &str| {
            let target = name.split('-').next();
            let lane = lanes.iter().find(|(own, _)| Some(*own) == target);
            lane.map(|(_, name)| (*name).to_owned())
        };
        adopt(&mut self.place, &self.say, wanted);
    }

    /// The next request to make, if there is one; of the spool too, unless `queue_only`. The lanes
    /// take turns.
    pub fn next(&mut self, now_ns: u64, queue_only: bool) -> Option<Job> {
        let count = self.lanes.len();
        for step in 1..=count {
            let at = self.last.wrapping_add(step) % count;
            let is_due = self.lanes.get(at).is_some_and(|lane| lane.backoff.until_ns() <= now_ns);
            if is_due && let Some(job) = self.job(at, queue_only, now_ns) {
                self.last = at;
                return Some(job);
            }
        }
        None
    }

    fn job(&mut self, at: usize, queue_only: bool, now_ns: u64) -> Option<Job> {
        let job = self.job_in_turn(at, queue_only, now_ns);
        let lane = self.lanes.get_mut(at)?;
        let is_again = job.is_none() && lane.backoff.until_ns() <= now_ns && lane.turns.again();
        if is_again { self.job_in_turn(at, queue_only, now_ns) } else { job }
    }

    fn job_in_turn(&mut self, at: usize, queue_only: bool, now_ns: u64) -> Option<Job> {
        let lane = self.lanes.get_mut(at)?;
        let turns = &lane.turns;
        let queued = lane.queue.iter().find(|one| !turns.is_passed(one.parcel.start_unix_ns));
        let spool = self.place.find().filter(|_| !queue_only);
        if let Some(spool) = spool {
            while let Some(oldest) =
                spool.oldest(&lane.name, |time| !turns.is_passed(time)).cloned()
            {
                if queued.is_some_and(|queued| queued.parcel.start_unix_ns < oldest.time_ns) {
                    break;
                }
                match spool.read(&oldest) {
                    Ok(Some(parcel)) => {
                        let request = lane.destination.request(&parcel);
                        let time_ns = oldest.time_ns;
                        return Some(Job {
                            lane: at,
                            time_ns,
                            what: What::Spooled(oldest),
                            request,
                        });
                    }
                    Ok(None) => {
                        spool.remove(&oldest);
                        lane.counts.damaged = lane.counts.damaged.saturating_add(1);
                    }
                    // The program may have no descriptor left, or be another user's by now.
                    Err(error) => {
                        lane.turns.failed(oldest.time_ns);
                        lane.backoff.failed(now_ns, None);
                        lane.error = Some(format!("a profile that waits can't be read: {error}"));
                        return None;
                    }
                }
            }
        }
        let queued = queued?;
        let (time_ns, what) = (queued.parcel.start_unix_ns, What::Queued(queued.number));
        let request = lane.destination.request(&queued.parcel);
        Some(Job { lane: at, time_ns, what, request })
    }

    /// What came of a request.
    pub fn done(&mut self, job: &Job, result: Result<Answer, Fault>, now_ns: u64) {
        let Some(lane) = self.lanes.get_mut(job.lane) else { return };
        match Verdict::of(result, &lane.destination.hidden()) {
            Verdict::Taken { .. } => {
                lane.counts.sent = lane.counts.sent.saturating_add(1);
                self.recovered(job.lane);
                self.forget(job, true);
            }
            Verdict::Later { why, after } => {
                lane.counts.failed = lane.counts.failed.saturating_add(1);
                let is_to_go = why.may_be_the_profiles() && lane.turns.failed(job.time_ns);
                self.failed(job.lane, &why, after, now_ns);
                if is_to_go {
                    let again = |why| format!("{why}, again and again, while others were taken");
                    self.refused(job.lane, again(why.kind()), again(why.to_string()));
                    self.forget(job, false);
                }
            }
            Verdict::Never(why) => {
                lane.backoff.succeeded();
                self.refused(job.lane, why.kind(), why.to_string());
                self.forget(job, false);
            }
        }
    }

    fn forget(&mut self, job: &Job, is_taken: bool) {
        let Some(lane) = self.lanes.get_mut(job.lane) else { return };
        lane.turns.gone(job.time_ns, is_taken);
        match &job.what {
            What::Queued(number) => lane.queue.retain(|queued| queued.number != *number),
            What::Spooled(waiting) => {
                if let Some(spool) = self.place.find() {
                    spool.remove(waiting);
                }
            }
        }
    }

    fn recovered(&mut self, at: usize) {
        let Some(lane) = self.lanes.get_mut(at) else { return };
        lane.error = None;
        if lane.backoff.failures() > 0 {
            let place = &lane.destination.address;
            let text = format!("profiles can be sent to {place} again");
            (self.say)(LogLevel::Info, &text);
        }
        lane.backoff.succeeded();
    }

    fn failed(&mut self, at: usize, why: &Why, after: Option<Duration>, now_ns: u64) {
        let Some(lane) = self.lanes.get_mut(at) else { return };
        let is_first = lane.backoff.failures() == 0;
        lane.backoff.failed(now_ns, after);
        lane.error = Some(why.to_string());
        if is_first {
            let (place, folder) = (&lane.destination.address, self.place.folder());
            let folder = folder.display();
            let later = after.map_or("later".to_owned(), |after| {
                format!("in {} s: it said when (Retry-After)", after.as_secs())
            });
            let text = format!(
                "profiles can't be sent to {place} now: {why}. They wait in {folder} and are sent \
                 {later}"
            );
            (self.say)(LogLevel::Warn, &text);
        }
    }

    /// A profile is lost; `kind` is why in the same words for all that are lost for it.
    fn refused(&mut self, at: usize, kind: String, text: String) {
        let Some(lane) = self.lanes.get_mut(at) else { return };
        lane.counts.refused = lane.counts.refused.saturating_add(1);
        if lane.refusals.len() < REFUSALS_SAID && !lane.refusals.contains(&kind) {
            let place = &lane.destination.address;
            let line = format!(
                "a profile was refused for good by {place}: {text}. It is lost; the same will not \
                 be said again"
            );
            (self.say)(LogLevel::Warn, &line);
            lane.refusals.push(kind);
        }
        lane.error = Some(text);
    }

    /// When something is due next; `None` if nothing waits.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        let spool = self.place.made();
        let waits = |lane: &&Lane| {
            !lane.queue.is_empty() || spool.is_some_and(|spool| spool.size(&lane.name).0 > 0)
        };
        self.lanes.iter().filter(waits).map(|lane| lane.backoff.until_ns()).min()
    }

    /// Lanes of which something waits in memory and may be sent now.
    #[must_use]
    pub fn ready(&self, now_ns: u64) -> usize {
        let is_ready = |lane: &&Lane| !lane.queue.is_empty() && lane.backoff.until_ns() <= now_ns;
        self.lanes.iter().filter(is_ready).count()
    }

    /// How it goes.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let spool = self.place.made();
        let status = |lane: &Lane| Status {
            target: lane.destination.target,
            address: lane.destination.address.to_string(),
            counts: lane.counts,
            queued: (lane.queue.len() as u64, lane.queue_bytes()),
            spooled: spool.map_or((0, 0), |spool| spool.size(&lane.name)),
            error: lane.error.clone(),
        };
        self.lanes.iter().map(status).collect()
    }

    /// The spool's folder.
    #[must_use]
    pub fn folder(&self) -> std::path::PathBuf {
        self.place.folder()
    }
}

fn adopt(place: &mut Place, say: &Say, wanted: impl Fn(&str) -> Option<String>) {
    let Some(spool) = place.find() else { return };
    // A folder that can't be read is said when something has to be kept there.
    if let Ok(n @ 1..) = spool.adopt(wanted) {
        let folder = spool.folder().display();
        say(LogLevel::Info, &format!("{n} profiles of before wait in {folder} and are sent now"));
    }
}

// Of links and rights, as Linux has them.
#[cfg(test)]
#[cfg(unix)]
mod tests;
