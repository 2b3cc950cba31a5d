//! What a container is made of: a file system of its own that is read-only, process numbers and
//! mounts of its own, a user without any right. Where no container engine is, it stands in for one.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use rig::{Rig, Unavailable};

/// Builds the root and enters it. Arguments: the root's folder, the user, how to mount `/proc`, a
/// script that prepares it as root would in an image, then from, to and `ro` or `rw` of each mount,
/// `--`, and the command.
const ENTER: &str = r#"
set -e
root=$1 user=$2 proc=$3 prepare=$4
shift 4
bind() {
    if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root${2%/*}"; : >>"$root$2"; fi
    mount --bind "$1" "$root$2"
    if [ "$3" = ro ]; then mount -o remount,bind,ro "$root$2"; fi
}
mount -t tmpfs -o mode=755 none "$root"
for folder in /bin /sbin /lib /lib64; do
    if [ -L "$folder" ]; then cp -P "$folder" "$root"; else bind "$folder" "$folder" ro; fi
done
for folder in /usr /etc; do bind "$folder" "$folder" ro; done
for device in null zero random urandom; do bind /dev/$device /dev/$device rw; done
mkdir "$root/proc" "$root/tmp"
chmod 1777 "$root/tmp"
mount -t proc -o "$proc" none "$root/proc"
while [ "$1" != -- ]; do
    bind "$1" "$2" "$3"
    shift 3
done
shift
chroot "$root" sh -ec "$prepare"
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all "$@"
"#;

/// Namespaces of its own; the first process of the new ones is the command.
const NAMESPACES: [&str; 4] = ["--mount", "--pid", "--fork", "--kill-child"];

/// A container that is not started yet.
#[derive(Clone, Debug)]
pub struct Sandbox {
    folder: PathBuf,
    user: u32,
    proc: &'static str,
    prepare: String,
    mounts: Vec<[String; 3]>,
}

impl Sandbox {
    /// An empty one whose things lie in a new folder; `None`, and said loudly, where there can be
    /// none.
    ///
    /// # Errors
    /// If the folder can't be made.
    pub fn new(test: &str, user: u32) -> Result<Option<Self>> {
        let rig = Rig::ensure()?;
        let mut unshare = Command::new("unshare");
        let can = unshare.args(NAMESPACES).arg("true").stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            let what = "a container's namespaces".to_owned();
            let reason = "`unshare` of util-linux needs root here".to_owned();
            rig.skip(test, &Unavailable { what, reason });
            return Ok(None);
        }
        let target = rig.root().parent().context("the rig stands nowhere")?;
        let folder = target.join("e2e").join(test);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {folder:?}"))?;
        }
        fs::create_dir_all(folder.join("root"))?;
        let (prepare, mounts) = (String::new(), Vec::new());
        Ok(Some(Self { folder, user, proc: "rw", prepare, mounts }))
    }

    /// A folder beside the root, made if it isn't there.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
        Ok(folder)
    }

    /// With something of this machine at that path inside.
    pub fn mount(&mut self, from: &Path, to: &str, is_read_only: bool) -> &mut Self {
        let options = if is_read_only { "ro" } else { "rw" };
        self.mounts.push([from.to_string_lossy().into_owned(), to.to_owned(), options.to_owned()]);
        self
    }

    /// With a script that root runs inside before the root is read-only, as in an image's making.
    pub fn prepare(&mut self, script: &str) -> &mut Self {
        self.prepare.push_str(script);
        self.prepare.push('\n');
        self
    }

    /// With `/proc` mounted so.
    pub fn proc(&mut self, options: &'static str) -> &mut Self {
        self.proc = options;
        self
    }

    /// The command in there, with these variables and no others.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        variables: &[(String, String)],
        program: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new("unshare");
        command.args(NAMESPACES).args(["sh", "-c", ENTER, "sh"]);
        command.arg(self.folder.join("root")).arg(self.user.to_string());
        command.args([self.proc, &self.prepare]);
        command.args(self.mounts.iter().flatten()).args(["--", "env", "-i"]);
        command.arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.args(program).stdin(Stdio::null());
        command
    }
}
