//! C# compilation: Roslyn behind our own command line, which mcs compiles at first use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::component;
use crate::digest;
use crate::layout::{self, Layout, workspace};
use crate::lock::Lock;
use crate::progress::Step;
use crate::rig::Rig;
use crate::runtime::{
    Frameworks, Runtime,
    RuntimeVersion::{self, Net8},
};

/// Which compiler, since each has its own names for what it generates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compiler {
    /// What users' builds are made with: C# 12, portable PDB.
    #[default]
    Roslyn,
    /// Mono's compiler: C# 7, no PDB.
    Mcs,
}

/// What is made of the sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputKind {
    /// A program.
    #[default]
    Program,
    /// A library.
    Library,
}

/// How sources are compiled. Always optimised, with `unsafe` allowed.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The compiler.
    pub compiler: Compiler,
    /// Program or library.
    pub kind: OutputKind,
    /// The version whose assemblies are compiled against; the result runs on later ones too.
    pub against: RuntimeVersion,
    /// The frameworks that may be used.
    pub frameworks: Frameworks,
    /// More of the compiler's options, as csc knows them.
    pub extra: Vec<String>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            compiler: Compiler::default(),
            kind: OutputKind::default(),
            against: Net8,
            frameworks: Frameworks::NetCore,
            extra: Vec::new(),
        }
    }
}

/// One compilation to be done.
pub(crate) struct Job {
    pub sources: Vec<PathBuf>,
    pub out: PathBuf,
    pub options: CompileOptions,
}

/// The compilers on the runtime that they run on.
pub(crate) struct Toolchain<'a> {
    rig: &'a Rig,
    host: Runtime,
}

/// The startup hook that puts a program into a single-file runtime.
pub(crate) fn hook(layout: &Layout) -> PathBuf {
    layout.root().join("hook").join("hook.dll")
}

fn rig_source(name: &str) -> PathBuf {
    workspace().join("tests").join("rig").join("cs").join(name)
}

impl<'a> Toolchain<'a> {
    pub fn new(rig: &'a Rig, host: Runtime) -> Self {
        Self { rig, host }
    }

    /// Compiles the sources, unless the output is of the same ones already.
    pub fn compile(&self, sources: &[PathBuf], out: &Path, options: &CompileOptions) -> Result<()> {
        let job = Job { sources: sources.to_vec(), out: out.to_owned(), options: options.clone() };
        let title = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.compile_all(&title, vec![job])
    }

    /// Compiles the startup hook.
    pub fn compile_hook(&self) -> Result<()> {
        let options = CompileOptions { kind: OutputKind::Library, ..CompileOptions::default() };
        self.compile(&[rig_source("hook.cs")], &hook(self.rig.layout()), &options)
    }

    /// Compiles what is stale of the jobs; Roslyn's in one process, since its start is dear.
    pub fn compile_all(&self, title: &str, jobs: Vec<Job>) -> Result<()> {
        let jobs = self.stale(jobs)?;
        if jobs.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        // Another process may have done some of them while this one waited for the lock.
        let jobs = self.stale(jobs)?;
        if jobs.is_empty() {
            return Ok(());
        }
        let step = Step::begin(
            title,
            &match jobs.as_slice() {
                [job] => format!("compiling {}", job.out.display()),
                jobs => format!("compiling {} assemblies", jobs.len()),
            },
        );
        let (mcs, roslyn): (Vec<_>, Vec<_>) =
            jobs.iter().partition(|job| job.options.compiler == Compiler::Mcs);
        for job in mcs {
            self.run_mcs(&job.sources, &new_path(&job.out), &job.options)?;
            self.accept(job)?;
        }
        self.run_roslyn(&roslyn)?;
        for job in roslyn {
            self.accept(job)?;
        }
        step.done();
        Ok(())
    }

    /// The rig's own compiler, a program for any of the runtimes.
    pub fn compiler_program(&self) -> Result<PathBuf> {
        let program = self.compiler_path();
        if self.compiler_is_stale()? {
            let _lock = self.lock()?;
            self.make_compiler()?;
        }
        Ok(program)
    }

    /// Writes a response file for the rig's compiler; without `out` it compiles into memory.
    pub fn response_file(
        &self,
        sources: &[PathBuf],
        out: Option<&Path>,
        options: &CompileOptions,
    ) -> Result<PathBuf> {
        let mut lines = self.arguments(sources, out, options)?;
        lines.extend(["-langversion:12", "-deterministic+"].map(str::to_owned));
        if !options.extra.iter().any(|option| option.starts_with("-debug:")) {
            lines.push("-debug:portable".to_owned());
        }
        lines.push("-nullable:enable".to_owned());
        let lines: Vec<_> = lines.iter().map(|line| format!("\"{line}\"\n")).collect();
        let text = lines.concat();
        let dir = self.rig.layout().root().join("responses");
        fs::create_dir_all(&dir)?;
        // Named by its content: concurrent users of one name have the same content.
        let path = dir.join(format!("{}.rsp", &digest::of_parts([text.as_bytes()])[..16]));
        if !path.exists() {
            let new = dir.join(layout::unique());
            fs::write(&new, text)?;
            fs::rename(&new, &path)?;
        }
        Ok(path)
    }

    fn arguments(
        &self,
        sources: &[PathBuf],
        out: Option<&Path>,
        options: &CompileOptions,
    ) -> Result<Vec<String>> {
        let target = match options.kind {
            OutputKind::Program => "-target:exe",
            OutputKind::Library => "-target:library",
        };
        let mut lines: Vec<String> =
            ["-nostdlib", "-optimize+", "-unsafe+", target].map(str::to_owned).into();
        lines.extend(out.map(|out| format!("-out:{}", out.display())));
        lines.extend(options.extra.iter().cloned());
        for dir in self.rig.runtime(options.against)?.framework_dirs(options.frameworks) {
            lines.extend(assemblies(&dir)?.iter().map(|path| format!("-r:{}", path.display())));
        }
        lines.extend(sources.iter().map(|source| source.display().to_string()));
        Ok(lines)
    }

    fn run_roslyn(&self, jobs: &[&Job]) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        self.make_compiler()?;
        let mut command = self.host.command(&self.compiler_path(), Frameworks::NetCore)?;
        for job in jobs {
            let new = new_path(&job.out);
            create_parent(&new)?;
            let options = self.response_file(&job.sources, Some(&new), &job.options)?;
            command.arg(format!("@{}", options.display()));
        }
        check(command, "the C# compiler")
    }

    fn run_mcs(&self, sources: &[PathBuf], out: &Path, options: &CompileOptions) -> Result<()> {
        create_parent(out)?;
        let mcs = self.rig.layout().root().join(component::MCS.proof);
        let mut command = self.host.command(&mcs, Frameworks::NetCore)?;
        command.arg("-noconfig").args(self.arguments(sources, Some(out), options)?);
        check(command, "mcs")
    }

    fn compiler_path(&self) -> PathBuf {
        self.rig.layout().root().join("compiler").join("compiler.dll")
    }

    fn compiler_options(&self) -> CompileOptions {
        let roslyn = self.rig.layout().root().join("roslyn");
        let reference = |name: &str| format!("-r:{}", roslyn.join(name).display());
        CompileOptions {
            compiler: Compiler::Mcs,
            extra: vec![
                reference("Microsoft.CodeAnalysis.dll"),
                reference("Microsoft.CodeAnalysis.CSharp.dll"),
                // Roslyn names an older System.Collections.Immutable than the runtime has.
                "-nowarn:1701".to_owned(),
            ],
            ..CompileOptions::default()
        }
    }

    fn compiler_job(&self) -> Job {
        Job {
            sources: vec![rig_source("compiler.cs")],
            out: self.compiler_path(),
            options: self.compiler_options(),
        }
    }

    fn compiler_is_stale(&self) -> Result<bool> {
        Ok(!self.stale(vec![self.compiler_job()])?.is_empty())
    }

    /// Only under the lock.
    fn make_compiler(&self) -> Result<()> {
        if !self.compiler_is_stale()? {
            return Ok(());
        }
        let job = self.compiler_job();
        create_parent(&job.out)?;
        for name in ["Microsoft.CodeAnalysis.dll", "Microsoft.CodeAnalysis.CSharp.dll"] {
            let root = self.rig.layout().root();
            fs::copy(root.join("roslyn").join(name), root.join("compiler").join(name))?;
        }
        self.run_mcs(&job.sources, &new_path(&job.out), &job.options)?;
        self.accept(&job)
    }

    fn lock(&self) -> Result<Lock> {
        Lock::take(&self.rig.layout().root().join(".compile.lock"), "compiles test programs")
    }

    fn stale(&self, jobs: Vec<Job>) -> Result<Vec<Job>> {
        let mut stale = Vec::new();
        for job in jobs {
            let key = fs::read_to_string(key_path(&job.out)).unwrap_or_default();
            if !job.out.exists() || key != self.key(&job)? {
                stale.push(job);
            }
        }
        Ok(stale)
    }

    /// The digest of all that the output depends on.
    fn key(&self, job: &Job) -> Result<String> {
        let runtime = self.rig.runtime(job.options.against)?;
        let parameters =
            format!("{:?} {} {}", job.options, runtime.exact(), component::ROSLYN.key());
        let mut parts = vec![parameters.into_bytes()];
        for source in job.sources.iter().chain(&[rig_source("compiler.cs")]) {
            parts.push(source.to_string_lossy().into_owned().into_bytes());
            parts.push(fs::read(source).with_context(|| format!("cannot read {source:?}"))?);
        }
        Ok(digest::of_parts(parts.iter().map(Vec::as_slice)))
    }

    /// Puts a finished output in its place; the key comes last, so that a kill leaves it stale.
    fn accept(&self, job: &Job) -> Result<()> {
        let new = new_path(&job.out);
        let (symbols, new_symbols) = (job.out.with_extension("pdb"), new.with_extension("pdb"));
        if new_symbols.exists() {
            fs::rename(new_symbols, symbols)?;
        }
        fs::rename(&new, &job.out).with_context(|| format!("no output {new:?}"))?;
        fs::write(key_path(&job.out), self.key(job)?)?;
        // Not empty while other outputs of the same folder wait to be accepted.
        let _ = new.parent().map(fs::remove_dir);
        Ok(())
    }
}

fn check(mut command: Command, name: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    let messages = [output.stdout, output.stderr].concat();
    bail!("{name} failed ({}):\n{}", output.status, String::from_utf8_lossy(&messages).trim_end())
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("cannot create {parent:?}"))
}

/// The same file name in a folder beside, since an assembly is named after its file.
fn new_path(out: &Path) -> PathBuf {
    let parent = out.parent().unwrap_or(out);
    parent.join("new").join(out.file_name().unwrap_or_default())
}

fn key_path(out: &Path) -> PathBuf {
    out.with_extension("key")
}

fn assemblies(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {dir:?}"))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "dll") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
