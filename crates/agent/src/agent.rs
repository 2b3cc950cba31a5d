//! The runtime's callbacks, handed on to the engine; and how it all starts and stops.

use std::time::SystemTime;

use clr::{Events, FunctionId, HResult, Info, ModuleId, SuspendReason, ThreadId};
use config::control::{Command, Request};
use engine::{After, Event, ManagedId, ModuleKey, Next, PauseReason, Pauses, Profiler};

use crate::control::{Control, leave_soon};
use crate::session::Session;

/// The one agent of this process.
pub static AGENT: Agent = Agent { session: Session::new(), control: Control::new() };

/// What listens to the runtime.
pub struct Agent {
    session: Session,
    control: Control,
}

impl Agent {
    /// Whether it profiles, and how.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn profiler(&self) -> Option<&Profiler> {
        self.session.profiler()
    }

    /// Where pauses are noted, if they are to be.
    fn pauses(&self) -> Option<&Pauses> {
        let profiler = self.profiler().filter(|_| self.session.follows_pauses());
        profiler.map(Profiler::pauses)
    }
}

impl Events for Agent {
    fn initialize(&'static self, info: Info) -> Result<(), HResult> {
        if !self.session.load(info) {
            return Err(HResult::CANCEL_ACTIVATION);
        }
        if self.session.config().is_some_and(|config| config.control)
            && let Err(deaf) =
                self.control.take_place().and_then(|()| self.control.open(&self.session, None))
            && let Some(log) = self.session.log()
        {
            if deaf.is_taken { log.warn(&deaf.reason) } else { log.info(&deaf.reason) }
        }
        Ok(())
    }

    fn attach(&'static self, info: Info, data: &[u8]) -> Result<(), HResult> {
        // Nobody could end what nobody can speak to: without a place to listen it doesn't begin.
        let ready = || self.control.take_place().map_err(|deaf| deaf.reason);
        match Request::parse(&String::from_utf8_lossy(data)) {
            Ok(Request { command: Command::Attach(stay), settings })
                if !stay.is_too_late(SystemTime::now())
                    && self.session.attach(info, &settings, stay.leave_after, ready) =>
            {
                Ok(())
            }
            // Nobody waits for it any more, or it is switched off, or the command line is of
            // another version; that will say so.
            _ => Err(HResult::CANCEL_ACTIVATION),
        }
    }

    fn attached(&'static self) {
        // Both or neither, as above.
        let leave_after = self.session.leave_after();
        let begun = self.session.begin();
        let listen = || self.control.open(&self.session, leave_after).map_err(|deaf| deaf.reason);
        if let (Err(reason), Some(log)) = (begun.and_then(|()| listen()), self.session.log()) {
            self.control.close();
            log.error(&format!("not profiling: {reason}. The profiler leaves again."));
            leave_soon(&self.session, &log);
        }
    }

    fn detached(&self) {
        self.session.left();
    }

    fn shutdown(&self) {
        self.control.close();
        self.session.no_asking().close();
        if let Some(profiler) = self.profiler() {
            profiler.stop_for(Next::nothing(After::End));
        }
    }

    fn thread_created(&self, thread: ThreadId) {
        let (Some(profiler), Some(clr)) = (self.profiler(), self.session.clr()) else { return };
        let id = ManagedId(thread.0);
        profiler.registry().created(id);
        if let Some(tid) = clr.info().thread_tid(thread) {
            profiler.registry().assigned(id, tid);
        }
    }

    fn thread_assigned(&self, thread: ThreadId, tid: u32) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().assigned(ManagedId(thread.0), tid);
        }
    }

    fn thread_destroyed(&self, thread: ThreadId) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().destroyed(ManagedId(thread.0));
        }
    }

    fn thread_named(&self, thread: ThreadId, name: String) {
        if let Some(profiler) = self.profiler() {
            profiler.registry().named(ManagedId(thread.0), name);
        }
    }

    fn module_unloading(&self, module: ModuleId) {
        let (Some(profiler), Some(clr)) = (self.profiler(), self.session.clr()) else { return };
        clr.unloading(module);
        profiler.inbox().post(Event::Unloaded { module: ModuleKey(module.0) });
    }

    fn dynamic_method_unloaded(&self, function: FunctionId) {
        let (Some(profiler), Some(clr)) = (self.profiler(), self.session.clr()) else { return };
        drop(clr.wait_for_look_up());
        profiler.inbox().post(Event::Unloaded { module: ModuleKey(function.0) });
    }

    fn suspending(&self, reason: SuspendReason) {
        self.session.no_asking().suspending(reason);
        if let Some(pauses) = self.pauses() {
            pauses.suspending(pause_reason(reason));
        }
    }

    fn resuming(&self) {
        self.session.no_asking().resuming();
        if let Some(pauses) = self.pauses() {
            pauses.resuming();
        }
    }

    fn resumed(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.resumed();
        }
    }

    fn thread_suspended(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.thread_suspended();
        }
    }

    fn thread_resumed(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.thread_resumed();
        }
    }

    fn collection_started(&self, generation: u8, induced: bool) {
        if let Some(pauses) = self.pauses() {
            pauses.collection_started(generation, induced);
        }
    }

    fn collection_finished(&self) {
        if let Some(pauses) = self.pauses() {
            pauses.collection_finished();
        }
    }

    fn panicked(&self) {
        if let Some(profiler) = self.profiler() {
            profiler.panicked();
        }
    }
}

fn pause_reason(reason: SuspendReason) -> PauseReason {
    match reason {
        SuspendReason::Other | SuspendReason::Unloading => PauseReason::Other,
        SuspendReason::Gc => PauseReason::Gc,
        SuspendReason::GcPreparation => PauseReason::GcPreparation,
        SuspendReason::ReJit => PauseReason::ReJit,
        SuspendReason::Profiler => PauseReason::Profiler,
        SuspendReason::Debugger => PauseReason::Debugger,
        SuspendReason::Shutdown => PauseReason::Shutdown,
    }
}
