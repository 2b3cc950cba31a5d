//! What attaches left in a process's temporary folder that were killed, or whose process was
//! stopped at their end: files that nobody needs go, profiles are fetched.
//!
//! An agent of such an attach may be in the process, or just being loaded. So a folder that was
//! made for the same process is taken away only once our own agent is in: then no other one is.

use std::fs;
use std::path::Path;

use diagnostics::Process;

use crate::agent::LIBRARY;
use crate::fetching::{self, Room};
use crate::staging::Staging;
use crate::units::count;
use crate::warn;

/// Whose folders are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Of processes that are gone.
    TheGone,
    /// Of the process that is attached to.
    TheProcess,
}

/// Makes room before anything is put there: takes away what was left for processes that are gone,
/// and the copies of the agent in what was left for this one. If one of them is just being loaded,
/// nobody waits for it.
pub fn make_room(staging: &Staging, process: &Process, temporary: &Path, folder: &Path) {
    clear(staging, process, Of::TheGone, temporary, folder);
    for left in staging.leftovers(process, Of::TheProcess) {
        left.remove(LIBRARY);
    }
}

/// Takes folders away, and says what was in them; profiles are brought to a folder of their own in
/// `folder`, and what can't be brought there stays where it is.
pub fn clear(staging: &Staging, process: &Process, of: Of, temporary: &Path, folder: &Path) {
    let mut room = Room::default();
    for left in staging.leftovers(process, of) {
        let shown = temporary.join(left.name());
        let ending = ending(&left, &shown, folder, &mut room);
        warn(format!("an earlier attach left {} {ending}", shown.display()));
    }
}

/// What was in a folder and becomes of it, as the end of a sentence.
fn ending(left: &Staging, shown: &Path, folder: &Path, room: &mut Room) -> String {
    let profiles = left.profiles();
    let fetched = folder.join(left.name());
    let is_fetched = profiles == 0
        || fs::create_dir(&fetched).is_ok()
            && fetching::fetch_within(left, shown, &fetched, room).is_ok_and(|has_more| !has_more);
    let inside = count(profiles, "profile");
    if !is_fetched {
        // Should nothing have come.
        let _empty = fs::remove_dir(&fetched);
        return format!("with {inside}, which can't be fetched; copy them and delete the folder");
    }
    let with = match profiles {
        0 => "with no profiles".to_owned(),
        _ => format!("with {inside}, now in {}", fetched.display()),
    };
    let end = if left.clear() { "it is removed" } else { "it can't be removed; delete it" };
    format!("{with}; {end}")
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::PathBuf;

    use config::control::LENT_FOLDER;

    use super::*;

    /// Numbers that no process has.
    const GONE: [u32; 2] = [u32::MAX, u32::MAX - 1];

    /// A temporary folder with a folder of ours in it, and one for profiles.
    fn place(name: &str) -> (PathBuf, PathBuf, Process, Staging) {
        let top = std::env::temp_dir().join(format!("corprof-{name}-{}", std::process::id()));
        let out = top.join("out");
        fs::create_dir_all(&out).unwrap();
        let process = Process::new(std::process::id());
        let staging = Staging::make(&process, &top, "ours".to_owned()).unwrap();
        (top, out, process, staging)
    }

    /// What a killed attach to a process left.
    fn left(top: &Path, process: u32, files: &[&str]) -> PathBuf {
        let folder = top.join(format!("{LENT_FOLDER}{}-{process}", GONE[0]));
        fs::create_dir(&folder).unwrap();
        for file in files {
            fs::write(folder.join(file), *file).unwrap();
        }
        folder
    }

    #[test]
    fn a_folder_whose_agent_may_come_stays_until_ours_is_in() {
        let (top, out, process, staging) = place("may-come");
        let profile = "App_1_0000.pb.gz";
        let own = left(&top, process.pid(), &[profile, "corprof-agent.log", LIBRARY]);
        make_room(&staging, &process, &top, &out);
        assert!(own.join(profile).exists() && own.join("corprof-agent.log").exists());
        assert!(!own.join(LIBRARY).exists(), "it takes the room of the next one");
        clear(&staging, &process, Of::TheProcess, &top, &out);
        let fetched = out.join(own.file_name().unwrap()).join(profile);
        assert_eq!(fs::read_to_string(fetched).unwrap(), profile);
        assert!(!own.exists() && top.join("ours").exists());
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn what_a_gone_process_left_makes_room_and_its_profiles_are_fetched() {
        let (top, out, process, staging) = place("gone");
        let empty = left(&top, GONE[1], &[LIBRARY]);
        make_room(&staging, &process, &top, &out);
        assert!(!empty.exists() && fs::read_dir(&out).unwrap().next().is_none());
        let full = left(&top, GONE[1], &["App_1_0000.pb.gz", "App_1_0001.pb.gz", LIBRARY]);
        make_room(&staging, &process, &top, &out);
        assert!(!full.exists());
        let fetched = fs::read_dir(out.join(full.file_name().unwrap())).unwrap();
        assert_eq!(fetched.count(), 2);
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn profiles_that_can_not_be_fetched_stay() {
        let (top, out, process, staging) = place("stay");
        let own = left(&top, process.pid(), &["App_1_0000.pb.gz"]);
        fs::write(out.join(own.file_name().unwrap()), "in the way").unwrap();
        clear(&staging, &process, Of::TheProcess, &top, &out);
        assert!(own.join("App_1_0000.pb.gz").exists());
        // Nor do those for which there is no room.
        let other = left(&top, GONE[1], &[]);
        let huge = File::create(other.join("App_1_0000.pb.gz")).unwrap();
        huge.set_len(2 << 30).unwrap();
        clear(&staging, &process, Of::TheGone, &top, &out);
        assert!(other.exists(), "larger than all that is taken");
        fs::remove_dir_all(&top).unwrap();
    }
}
