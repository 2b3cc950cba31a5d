//! A browser without a window, driven by scripts in JavaScript.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::component::{self, Component};
use crate::install::{self, Retry};
use crate::layout::Layout;
use crate::unavailable::Unavailable;

/// Where a browser may be installed.
const INSTALLED: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];

/// Why there is no Node.js; `None` if there is.
pub(crate) fn no_node() -> Option<Unavailable> {
    let started = Command::new("node").arg("--version").stdout(Stdio::null()).status();
    let reason = "install it (on Debian: apt-get install nodejs npm)";
    started.is_err().then(|| Unavailable::new("Node.js, which runs the script,", reason))
}

/// Chromium, and what drives it.
#[derive(Clone, Debug)]
pub struct Browser {
    executable: PathBuf,
    layout: Layout,
}

impl Browser {
    /// The machine's own Chromium, or one that is unpacked under `target/rig`.
    pub(crate) fn ensure(
        layout: &Layout,
        retry: Retry,
    ) -> Result<std::result::Result<Self, Unavailable>> {
        if let Some(unavailable) = no_node() {
            return Ok(Err(unavailable));
        }
        let installed = INSTALLED.map(PathBuf::from).into_iter().find(|path| path.is_file());
        let mut components: Vec<&'static Component> =
            vec![&component::PLAYWRIGHT, &component::SPEEDSCOPE];
        if installed.is_none() {
            components.push(&component::CHROMIUM);
        }
        let results = install::ensure(layout, &components, retry)?;
        if let Some(unavailable) = results.into_iter().find_map(std::result::Result::err) {
            return Ok(Err(unavailable));
        }
        let unpacked = || layout.root().join(component::CHROMIUM.proof);
        let executable = installed.unwrap_or_else(unpacked);
        Ok(Ok(Self { executable, layout: layout.clone() }))
    }

    /// A script, without its arguments. It finds in its environment the browser (`CHROMIUM`), the
    /// module that drives it (`PLAYWRIGHT`), and speedscope's page (`SPEEDSCOPE`).
    #[must_use]
    pub fn script(&self, script: &Path) -> Command {
        let root = self.layout.root();
        let mut command = Command::new("node");
        command
            .arg(script)
            .env("CHROMIUM", &self.executable)
            .env("PLAYWRIGHT", root.join(component::PLAYWRIGHT.proof))
            .env("SPEEDSCOPE", root.join(component::SPEEDSCOPE.proof))
            .stdin(Stdio::null());
        command
    }
}
