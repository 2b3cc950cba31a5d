//! Another user, as whom files and sockets are dealt with.

use std::io::{self, ErrorKind};

use diagnostics::Process;
use nix::unistd::{Gid, Uid, getgroups, setegid, seteuid, setfsgid, setfsuid, setgroups};

/// The user of a process, with his groups.
///
/// What root does in a folder of somebody else's is done as that user, so that the kernel refuses
/// whatever he may not do himself: wherever a link or a mount of his leads, he gains nothing by it.
#[derive(Clone, Debug)]
pub struct FileUser {
    user: Uid,
    /// His own first.
    groups: Vec<Gid>,
}

impl FileUser {
    /// The user of a process; `None` if that is us, or can't be seen.
    pub fn of(process: &Process) -> Option<Self> {
        let status = process.status().ok()?;
        let user = Uid::from_raw(status.user()?);
        let groups = status.groups().into_iter().map(Gid::from_raw).collect();
        (user != Uid::effective()).then_some(Self { user, groups })
    }

    /// His number.
    pub fn number(&self) -> u32 {
        self.user.as_raw()
    }

    /// Has this thread do something as that user.
    ///
    /// # Errors
    /// Its own, or that we may not act as another.
    pub fn act<T>(&self, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let group = *self.groups.first().ok_or(ErrorKind::PermissionDenied)?;
        let _back = Back(getgroups()?);
        setgroups(&self.groups)?;
        setfsgid(group);
        setfsuid(self.user);
        // Neither tells of an error, but each of what was before.
        if setfsgid(group) != group || setfsuid(self.user) != self.user {
            return Err(ErrorKind::PermissionDenied.into());
        }
        action()
    }

    /// Has this process do something as that user, where others see who we are.
    ///
    /// # Errors
    /// Its own, or that we may not act as another.
    pub fn call<T>(&self, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let group = *self.groups.first().ok_or(ErrorKind::PermissionDenied)?;
        let (own_user, own_group) = (Uid::effective(), Gid::effective());
        let _back = Back(getgroups()?);
        setgroups(&self.groups)?;
        setegid(group)?;
        let result = seteuid(self.user).map_err(io::Error::from).and_then(|()| action());
        // We still have our own as the saved ones.
        seteuid(own_user)?;
        setegid(own_group)?;
        result
    }
}

/// Goes back to what we were.
struct Back(Vec<Gid>);

impl Drop for Back {
    fn drop(&mut self) {
        setfsuid(Uid::effective());
        setfsgid(Gid::effective());
        // Who may change them may change them back.
        let _back = setgroups(&self.0);
    }
}

/// Does something as another user, if there is one.
///
/// # Errors
/// Its own, or that we may not act as another.
pub fn act_as<T>(user: Option<&FileUser>, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match user {
        Some(user) => user.act(action),
        None => action(),
    }
}

#[cfg(test)]
impl FileUser {
    /// A user of that number, in the group of that number.
    pub fn numbered(number: u32) -> Self {
        Self { user: Uid::from_raw(number), groups: vec![Gid::from_raw(number)] }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn another_user_may_what_he_may() {
        let stranger = FileUser::numbered(4242);
        if !Uid::effective().is_root() {
            eprintln!("SKIPPED: only root can act as another user");
            assert!(stranger.act(|| Ok(())).is_err());
            return;
        }
        let file = std::env::temp_dir().join(format!("corprof-stranger-{}", std::process::id()));
        stranger.act(|| fs::write(&file, "his")).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().uid(), 4242);
        let refused = stranger.act(|| fs::read("/etc/shadow")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        fs::read("/etc/shadow").unwrap();
        fs::remove_file(&file).unwrap();
    }
}
