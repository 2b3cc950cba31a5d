//! The rig: which runtimes and compilers there are, installed at first use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use crate::app::App;
use crate::browser::{self, Browser};
use crate::compile::{self, CompileOptions, Toolchain};
use crate::component::{self, Component};
use crate::install::{self, Retry};
use crate::layout::Layout;
use crate::runtime::{
    Frameworks, Runtime,
    RuntimeVersion::{self, Net8, Net9, Net10, Net31},
};
use crate::unavailable::Unavailable;
use crate::user_dotnet::UserDotnet;
use crate::{deps, managed, skip, workload};

type Available<T> = std::result::Result<T, Unavailable>;

/// The runtimes, compilers and programs for tests.
#[derive(Debug)]
pub struct Rig {
    layout: Layout,
    net31: Available<Runtime>,
    net8: Available<Runtime>,
    net9: Available<Runtime>,
    net10: Available<Runtime>,
    mcs: Available<()>,
    roslyn: Available<()>,
}

impl Rig {
    /// The rig of this workspace; what is missing is downloaded at the first call, with progress on
    /// stderr. Takes milliseconds when everything is there.
    ///
    /// # Errors
    /// If `target/rig` cannot be written. A package that cannot be had is no error here.
    pub fn ensure() -> Result<&'static Self> {
        static RIG: OnceLock<std::result::Result<Rig, String>> = OnceLock::new();
        let rig = RIG.get_or_init(|| {
            Self::open(Layout::of_workspace(), Retry::Later).map_err(|error| format!("{error:#}"))
        });
        rig.as_ref().map_err(|message| anyhow!("the test rig cannot be set up: {message}"))
    }

    /// As [`ensure`](Self::ensure), but tries at once again what failed a short while ago, and
    /// compiles all test programs.
    ///
    /// # Errors
    /// As `ensure`; also if a test program does not compile.
    pub fn set_up() -> Result<Self> {
        let rig = Self::open(Layout::of_workspace(), Retry::Now)?;
        // Without it only tests of pages are skipped, and they say so.
        let _ = Browser::ensure(&rig.layout, Retry::Now)?;
        if rig.net8.is_ok() && rig.mcs.is_ok() && rig.roslyn.is_ok() {
            crate::app::compile_all(&rig)?;
        }
        Ok(rig)
    }

    fn open(layout: Layout, retry: Retry) -> Result<Self> {
        let user = UserDotnet::find();
        let users =
            |version, frameworks: &[&str]| users_runtime(user.as_ref(), version, frameworks);
        let users_8 = users(Net8, &[deps::NETCORE]);
        let users_9 = users(Net9, &[deps::NETCORE, deps::ASPNETCORE]);
        let users_31 = users(Net31, &[deps::NETCORE]);

        // The launcher comes with .NET 8 and serves the other versions too.
        let all_users = users_8.is_some() && users_9.is_some() && users_31.is_some();
        let wanted: [(&'static Component, bool); 6] = [
            (&component::DOTNET_8, !all_users),
            (&component::MCS, true),
            (&component::ROSLYN, true),
            (&component::DOTNET_9, users_9.is_none()),
            (&component::DOTNET_10, true),
            (&component::DOTNET_31, users_31.is_none()),
        ];
        let components: Vec<_> =
            wanted.iter().filter(|(_, wanted)| *wanted).map(|(component, _)| *component).collect();
        let results = install::ensure(&layout, &components, retry)?;
        let result = |wanted: &'static Component| -> Available<()> {
            let position = components.iter().position(|component| component.id == wanted.id);
            position.map_or(Ok(()), |index| results[index].clone())
        };

        let folder = |users: Option<Runtime>, version, component: &'static Component, exact| {
            if let Some(runtime) = users {
                return Ok(runtime);
            }
            result(component)?;
            // Without .NET 8's package there is no launcher, whatever else was installed.
            result(&component::DOTNET_8)?;
            Ok(Runtime::folder(version, exact, &layout.dotnet_root()))
        };
        let net8 = folder(users_8, Net8, &component::DOTNET_8, "8.0.4");
        let net9 = folder(users_9, Net9, &component::DOTNET_9, "9.0.5");
        let net31 = folder(users_31, Net31, &component::DOTNET_31, "3.1.32");
        let net10 = result(&component::DOTNET_10).map(|()| {
            let host = layout.root().join(component::DOTNET_10.proof);
            Runtime::single_file(Net10, "10.0.13", host, compile::hook(&layout))
        });
        let (mcs, roslyn) = (result(&component::MCS), result(&component::ROSLYN));
        Ok(Self { layout, net31, net8, net9, net10, mcs, roslyn })
    }

    /// The runtime of that version.
    ///
    /// # Errors
    /// If it cannot be had on this machine, with the reason; pass it to [`skip`](Self::skip).
    pub fn runtime(&self, version: RuntimeVersion) -> Available<Runtime> {
        match version {
            Net31 => self.net31.clone(),
            Net8 => self.net8.clone(),
            Net9 => self.net9.clone(),
            Net10 => self.net10.clone(),
        }
    }

    /// A script of Node.js, without its arguments, that reads pprof files by a module of others: it
    /// finds that in its environment (`PPROF_FORMAT`). Downloaded at the first call.
    ///
    /// # Errors
    /// [`Unavailable`] in the chain, if there is no Node.js or no such module.
    pub fn pprof_reader(&self, script: &Path) -> Result<Command> {
        if let Some(unavailable) = browser::no_node() {
            return Err(unavailable.into());
        }
        let components: [&'static Component; 1] = [&component::PPROF_FORMAT];
        let results = install::ensure(&self.layout, &components, Retry::Later)?;
        if let Some(unavailable) = results.into_iter().find_map(std::result::Result::err) {
            return Err(unavailable.into());
        }
        let mut command = Command::new("node");
        let module = self.layout.root().join(component::PPROF_FORMAT.proof);
        command.arg(script).env("PPROF_FORMAT", module);
        Ok(command)
    }

    /// A browser for tests of pages, downloaded at the first call.
    ///
    /// # Errors
    /// If it cannot be had on this machine ([`Unavailable`]), or `target/rig` cannot be written.
    pub fn browser(&self) -> Result<Browser> {
        Ok(Browser::ensure(&self.layout, Retry::Later)??)
    }

    /// The test program of that name, compiled if its sources changed.
    ///
    /// # Errors
    /// If there is no such program, or it does not compile.
    pub fn app(&self, name: &str) -> Result<App<'_>> {
        App::find(self, name)
    }

    /// The command of a test program; `None` if what it needs is unavailable, and then the test is
    /// skipped, loudly.
    ///
    /// # Errors
    /// As [`App::command`], but for what is unavailable.
    pub fn command_or_skip(
        &self,
        test: &str,
        app: &str,
        version: RuntimeVersion,
    ) -> Result<Option<Command>> {
        self.or_skip(test, self.app(app)?.command(version))
    }

    /// A result; `None` if what it needs is unavailable, and then the test is skipped, loudly.
    ///
    /// # Errors
    /// The others that are in it.
    pub fn or_skip<T>(&self, test: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => match error.downcast_ref::<Unavailable>() {
                Some(unavailable) => {
                    self.skip(test, unavailable);
                    Ok(None)
                }
                None => Err(error),
            },
        }
    }

    /// Compiles C# sources to `out`, unless it stands there already, of the same sources.
    ///
    /// # Errors
    /// With the compiler's messages, or if there is no compiler ([`Unavailable`] in the chain).
    pub fn compile(&self, sources: &[PathBuf], out: &Path, options: &CompileOptions) -> Result<()> {
        self.toolchain()?.compile(sources, out, options)
    }

    /// Puts the product's own assemblies into a folder, compiled if their sources changed; gives
    /// their paths in the order of [`Managed::ALL`](crate::Managed::ALL).
    ///
    /// # Errors
    /// If they do not compile, or there is no compiler ([`Unavailable`] in the chain).
    pub fn put_managed(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let assemblies = managed::compile_all(self)?;
        assemblies.iter().map(|assembly| managed::copy(assembly, folder)).collect()
    }

    /// A real workload: Roslyn compiles so many generated classes; with 1,500, some 25,000 methods
    /// are jitted.
    ///
    /// # Errors
    /// If the runtime ([`Unavailable`] in the chain) or the compiler cannot be had.
    pub fn roslyn_compile_command(&self, version: RuntimeVersion, classes: u32) -> Result<Command> {
        let toolchain = self.toolchain()?;
        let sources = workload::generated_classes(&self.layout, classes)?;
        let options = toolchain.response_file(&sources, None, &CompileOptions::default())?;
        let compiler = toolchain.compiler_program()?;
        let mut command = self.runtime(version)?.command(&compiler, Frameworks::NetCore)?;
        command.arg(format!("@{}", options.display()));
        Ok(command)
    }

    /// Says loudly that the test is skipped, and notes it for [`skipped`](Self::skipped).
    pub fn skip(&self, test: &str, unavailable: &Unavailable) {
        skip::note(&self.layout, test, unavailable);
    }

    /// The tests skipped since [`clear_skipped`](Self::clear_skipped), one line each.
    pub fn skipped(&self) -> Vec<String> {
        skip::list(&self.layout)
    }

    /// Forgets the skipped tests, before a run of all tests.
    ///
    /// # Errors
    /// If the list cannot be removed.
    pub fn clear_skipped(&self) -> std::io::Result<()> {
        skip::clear(&self.layout)
    }

    /// The folder of the rig, for things that tests put beside it.
    pub fn root(&self) -> &Path {
        self.layout.root()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The compilers, with the runtime that they run on.
    pub(crate) fn toolchain(&self) -> Available<Toolchain<'_>> {
        self.mcs.clone()?;
        self.roslyn.clone()?;
        Ok(Toolchain::new(self, self.net8.clone()?))
    }
}

fn users_runtime(
    user: Option<&UserDotnet>,
    version: RuntimeVersion,
    frameworks: &[&str],
) -> Option<Runtime> {
    let user = user?;
    let exact = user.newest(version.major_minor(), frameworks)?;
    Some(Runtime::folder(version, &exact, user.root()))
}
