//! The profiles of a server: all of them on disk, the latest in memory as columns.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use anyhow::{Context as _, ensure};
use profile::Profile;
use profile::read::decode;
use server::intake::Upload;
use server::store::{Entry, Meta, Numbers, Place, Store};

use crate::demangled;
use crate::view::api::Api;
use crate::view::columns::{Columns, Identity};

/// Bytes of the latest time's columns. Once there are more, the older half is left to the disk.
const BYTES_MAX: usize = 512 << 20;
/// Bytes of the columns of an older time.
const SPAN_BYTES_MAX: usize = 256 << 20;
/// Profiles that are read for an older time.
const SPAN_PROFILES_MAX: usize = 2_000;
/// Older times that are kept for the next question.
const SPANS_KEPT: usize = 2;

/// A time, in microseconds since 1970.
pub type Span = (u64, u64);

/// Everything that a server has.
pub struct Live {
    store: Mutex<Store>,
    /// Held by who writes to the store, from the begin to the end.
    writing: Mutex<()>,
    /// How much of the latest time is in memory, in microseconds.
    window_us: u64,
    api: RwLock<Arc<Api>>,
    /// Held while a profile is put in, and by who puts other columns in the place of these.
    changing: RwLock<()>,
    spans: Mutex<VecDeque<(Span, Arc<Api>)>>,
    /// Held while an older time is read: one after the other, or all of them would be in memory.
    reading: Mutex<()>,
    epochs: AtomicU64,
    /// Whether a push has deleted what the columns still have.
    has_deleted: AtomicBool,
    /// Wakes who maintains it.
    wake: SyncSender<()>,
}

impl Live {
    /// Of a store, of which so many seconds are held in memory; `now` is in seconds since 1970.
    /// `wake` is told when [`Live::maintain`] has something to do before its time.
    pub fn new(store: Store, window_seconds: u64, now: u64, wake: SyncSender<()>) -> Self {
        let window_us = window_seconds.saturating_mul(1_000_000);
        let empty = Arc::new(Api::new(Columns::default(), String::new(), None));
        let live = Self {
            store: Mutex::new(store),
            writing: Mutex::new(()),
            window_us,
            api: RwLock::new(empty),
            changing: RwLock::new(()),
            spans: Mutex::new(VecDeque::new()),
            reading: Mutex::new(()),
            // Numbers of an earlier process are none of ours.
            epochs: AtomicU64::new(now.saturating_mul(1_000)),
            has_deleted: AtomicBool::new(false),
            wake,
        };
        live.rebuild(now);
        live
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        // Each change of the store is complete in itself.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the latest time begins, in microseconds since 1970.
    fn begin_us(&self, now: u64) -> u64 {
        now.saturating_mul(1_000_000).saturating_sub(self.window_us)
    }

    /// Keeps profiles: all of them are on disk when this returns, or none is. Those that are there
    /// already are left out, and given back.
    ///
    /// # Errors
    /// That of the disk.
    pub fn put(&self, uploads: Vec<Upload>, now: u64) -> io::Result<Vec<Upload>> {
        let _changing = self.changing.read().unwrap_or_else(PoisonError::into_inner);
        let (uploads, repeated) = self.write(uploads, now)?;
        let api = self.api();
        // What waited for long at its sender is of an older time.
        let begin_us = self.begin_us(now);
        let latest = uploads.into_iter().filter(|one| one.meta.end_us() > begin_us);
        for Upload { meta, mut profile, .. } in latest {
            demangled::name(&mut profile);
            api.add(identity(&meta, &profile), &profile);
        }
        if api.columns().bytes() > BYTES_MAX {
            // If it is woken already, that is enough.
            let _ = self.wake.try_send(());
        }
        Ok(repeated)
    }

    /// Writes those that are new, and gives them and the others.
    fn write(&self, uploads: Vec<Upload>, now: u64) -> io::Result<(Vec<Upload>, Vec<Upload>)> {
        // Before it is looked what is there: the same may be sent twice at a time.
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_new = self.store().new_of(uploads.iter().map(|one| &one.meta)).into_iter();
        let (new, repeated): (Vec<_>, Vec<_>) =
            uploads.into_iter().partition(|_| is_new.next().unwrap_or(true));
        if new.is_empty() {
            return Ok((new, repeated));
        }
        let records: Vec<_> = new.iter().map(|one| (&one.meta, one.bytes.as_slice())).collect();
        let appending = {
            let mut store = self.store();
            if store.make_room(new.iter().map(|one| &one.meta), now)? > 0 {
                self.has_deleted.store(true, Ordering::Relaxed);
                let _ = self.wake.try_send(());
            }
            store.begin(now)?
        };
        // Others may ask the store while the disk writes.
        let written = appending.write(&records)?;
        self.store().commit(written);
        Ok((new, repeated))
    }

    /// Whether profiles come faster than there is made room for them in memory.
    pub fn is_full(&self) -> bool {
        self.api().columns().bytes() > 2 * BYTES_MAX
    }

    /// The latest profiles.
    pub fn api(&self) -> Arc<Api> {
        Arc::clone(&self.api.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those of another time, read for it.
    ///
    /// # Errors
    /// If there are too many, or none.
    pub fn span(&self, span: Span) -> anyhow::Result<Arc<Api>> {
        let spans = || self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let known = || spans().iter().find(|(other, _)| *other == span).map(|(_, of)| of.clone());
        if let Some(known) = known() {
            return Ok(known);
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // Who read before may have asked for the same.
        if let Some(known) = known() {
            return Ok(known);
        }
        let is_in = |entry: &&Entry| entry.meta.begin_us < span.1 && entry.meta.end_us() > span.0;
        let entries: Vec<Entry> = self.store().entries().iter().filter(is_in).cloned().collect();
        let count = entries.len();
        ensure!(count > 0, "there are no profiles of that time");
        ensure!(
            count <= SPAN_PROFILES_MAX,
            "{count} profiles are of that time, and {SPAN_PROFILES_MAX} can be looked at at once; \
             choose a shorter one"
        );
        let mut columns = Columns::default();
        for entry in &entries {
            self.add_stored(&mut columns, entry);
            ensure!(
                columns.bytes() <= SPAN_BYTES_MAX,
                "the profiles of that time need more than {} MiB of memory; choose a shorter one",
                SPAN_BYTES_MAX >> 20
            );
        }
        let api = Arc::new(self.of(columns));
        let mut spans = spans();
        if spans.len() >= SPANS_KEPT {
            spans.pop_front();
        }
        spans.push_back((span, Arc::clone(&api)));
        Ok(api)
    }

    fn of(&self, columns: Columns) -> Api {
        let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
        Api::new(columns, "corprof serve".to_owned(), None).with_epoch(epoch)
    }

    /// Adds a profile of the store. One that can't be read is left out: it is damaged, which the
    /// store counts at the next start, or was deleted just now.
    fn add_stored(&self, columns: &mut Columns, entry: &Entry) {
        if let Ok(profile) = self.stored(entry) {
            columns.add(identity(&entry.meta, &profile), &profile);
        }
    }

    fn stored(&self, entry: &Entry) -> anyhow::Result<Profile> {
        let reader = self.store().reader(entry.place).context("deleted")?;
        let mut profile = decode(&reader.read()?)?.profile;
        demangled::name(&mut profile);
        Ok(profile)
    }

    /// Deletes what is not to be kept, and puts new columns in the place of those that have too
    /// much.
    ///
    /// # Errors
    /// That of the disk.
    pub fn maintain(&self, now: u64) -> io::Result<()> {
        let deleted = self.store().expire(now)?;
        let has_deleted = self.has_deleted.swap(false, Ordering::Relaxed) || deleted > 0;
        let begin_us = self.begin_us(now);
        let (is_too_long, is_too_much) = {
            let api = self.api();
            let columns = api.columns();
            let old = columns.sources.iter().filter(|source| source.end_us() < begin_us).count();
            (old * 4 > columns.sources.len(), columns.bytes() > BYTES_MAX)
        };
        if is_too_long || is_too_much || has_deleted {
            self.rebuild(now);
        }
        Ok(())
    }

    /// Reads the latest profiles anew.
    fn rebuild(&self, now: u64) {
        let begin_us = self.begin_us(now);
        let (latest, mut last) = {
            let store = self.store();
            let all = store.entries();
            let latest = all.iter().rev().filter(|entry| entry.meta.end_us() > begin_us);
            (latest.cloned().collect::<Vec<_>>(), all.last().map(|entry| entry.place))
        };
        let mut columns = Columns::default();
        for entry in &latest {
            // Half of what there may be, or the next profile would make it too much again.
            if columns.bytes() > BYTES_MAX / 2 {
                break;
            }
            self.add_stored(&mut columns, entry);
        }
        // In the order in which they came.
        columns.sources.reverse();
        // What came while the disk was read, which nobody has to wait for, and the rest.
        last = self.catch_up(&mut columns, last, begin_us);
        let _changing = self.changing.write().unwrap_or_else(PoisonError::into_inner);
        self.catch_up(&mut columns, last, begin_us);
        *self.api.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(self.of(columns));
    }

    /// Adds what came after that place and is of the latest time; gives the last place.
    fn catch_up(&self, columns: &mut Columns, last: Option<Place>, begin_us: u64) -> Option<Place> {
        let is_new = |entry: &&Entry| last.is_none_or(|last| entry.place > last);
        let new: Vec<Entry> = self.store().entries().iter().filter(is_new).cloned().collect();
        for entry in new.iter().filter(|entry| entry.meta.end_us() > begin_us) {
            self.add_stored(columns, entry);
        }
        new.last().map(|entry| entry.place).or(last)
    }

    /// The store's numbers.
    pub fn numbers(&self) -> Numbers {
        self.store().numbers()
    }

    /// From the first to the last profile that there is, in microseconds since 1970.
    pub fn period(&self) -> Option<Span> {
        let store = self.store();
        let begin = store.entries().iter().map(|entry| entry.meta.begin_us).min()?;
        let end = store.entries().iter().map(|entry| entry.meta.end_us()).max()?;
        Some((begin, end))
    }
}

fn identity(meta: &Meta, profile: &Profile) -> Identity {
    Identity {
        name: format!("{} {}", meta.service, meta.instance).trim_end().to_owned(),
        service: meta.service.clone(),
        version: meta.version.clone(),
        instance: meta.instance.clone(),
        // What others push has one instance a process, if any.
        process: match meta.instance.as_str() {
            "" => String::new(),
            instance => format!("{}\n{instance}", meta.service),
        },
        labels: meta.labels.clone(),
        // Its first thread has the same number, and is called so.
        pid: profile.report.as_ref().map_or(0, |report| report.pid),
    }
}
