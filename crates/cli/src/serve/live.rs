//! The profiles of a server: all of them on disk, the latest in memory as columns.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use anyhow::{Context as _, ensure};
use profile::Profile;
use profile::read::decode;
use server::intake::Upload;
use server::store::{Entry, Meta, Numbers, Store};

use crate::demangled;
use crate::view::api::Api;
use crate::view::columns::{Columns, Identity};

/// Rows that are held at most: of those of more, the latest. 80 bytes each.
const ROWS_MAX: usize = 4_000_000;
/// Profiles that are read for an older time.
const SPAN_PROFILES_MAX: usize = 2_000;
/// Older times that are kept for the next question.
const SPANS_KEPT: usize = 2;

/// A time, in microseconds since 1970.
pub type Span = (u64, u64);

/// Everything that a server has.
pub struct Live {
    store: Mutex<Store>,
    /// How much of the latest time is in memory, in microseconds.
    window_us: u64,
    api: RwLock<Arc<Api>>,
    /// Held while a profile is put in, and by who puts other columns in the place of these.
    changing: RwLock<()>,
    spans: Mutex<VecDeque<(Span, Arc<Api>)>>,
    epochs: AtomicU64,
}

impl Live {
    /// Of a store, of which so many seconds are held in memory; `now` is in seconds since 1970.
    pub fn new(store: Store, window_seconds: u64, now: u64) -> Self {
        let window_us = window_seconds.saturating_mul(1_000_000);
        let empty = Arc::new(Api::new(Columns::default(), String::new(), None));
        let live = Self {
            store: Mutex::new(store),
            window_us,
            api: RwLock::new(empty),
            changing: RwLock::new(()),
            spans: Mutex::new(VecDeque::new()),
            // Numbers of an earlier process are none of ours.
            epochs: AtomicU64::new(now.saturating_mul(1_000)),
        };
        live.rebuild(now);
        live
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        // Each change of the store is complete in itself.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps profiles: they are on disk when this returns.
    ///
    /// # Errors
    /// That of the disk; those of them that were before it in the list are kept.
    pub fn put(&self, uploads: Vec<Upload>, now: u64) -> io::Result<()> {
        let _changing = self.changing.read().unwrap_or_else(PoisonError::into_inner);
        for upload in uploads {
            let Upload { meta, bytes, mut profile } = upload;
            self.store().put(meta.clone(), &bytes, now)?;
            demangled::name(&mut profile);
            self.api().add(identity(&meta), &profile);
        }
        Ok(())
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
        if let Some((_, known)) = spans().iter().find(|(other, _)| *other == span) {
            return Ok(Arc::clone(known));
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
            columns.add(identity(&entry.meta), &profile);
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
        let begin_us = now.saturating_mul(1_000_000).saturating_sub(self.window_us);
        let (is_too_long, is_too_much) = {
            let api = self.api();
            let columns = api.columns();
            let old = columns.sources.iter().filter(|source| source.end_us() < begin_us).count();
            (old * 4 > columns.sources.len(), columns.rows.len() > ROWS_MAX)
        };
        if is_too_long || is_too_much || deleted > 0 {
            self.rebuild(now);
        }
        Ok(())
    }

    /// Reads the latest profiles anew.
    fn rebuild(&self, now: u64) {
        let begin_us = now.saturating_mul(1_000_000).saturating_sub(self.window_us);
        let entries: Vec<Entry> = self.store().entries().to_vec();
        let latest = entries.iter().rev().filter(|entry| entry.meta.end_us() > begin_us);
        // Half of what there may be, or the next profile would make it too much again.
        let mut profiles = Vec::new();
        let mut rows = 0;
        for entry in latest {
            let Ok(profile) = self.stored(entry) else { continue };
            rows += profile.samples.len();
            if rows > ROWS_MAX / 2 {
                break;
            }
            profiles.push((identity(&entry.meta), profile));
        }
        let mut columns = Columns::default();
        while let Some((identity, profile)) = profiles.pop() {
            columns.add(identity, &profile);
        }
        let _changing = self.changing.write().unwrap_or_else(PoisonError::into_inner);
        let last = entries.last().map(|entry| entry.place);
        let new: Vec<Entry> = {
            let store = self.store();
            let all = store.entries();
            let known = all.iter().rposition(|entry| Some(entry.place) == last);
            all.get(known.map_or(0, |at| at + 1)..).unwrap_or_default().to_vec()
        };
        for entry in &new {
            self.add_stored(&mut columns, entry);
        }
        *self.api.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(self.of(columns));
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

fn identity(meta: &Meta) -> Identity {
    Identity {
        name: format!("{} {}", meta.service, meta.instance),
        service: meta.service.clone(),
        version: meta.version.clone(),
        instance: meta.instance.clone(),
        labels: meta.labels.clone(),
        // Which thread is the process's first can't be told of many.
        pid: 0,
    }
}
