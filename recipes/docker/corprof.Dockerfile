# The image `corprof`: the agent, its startup hook and the command line, in /opt/corprof. The other
# recipes take them from here. From the root of corprof's repository:
#
#   docker build --file recipes/docker/corprof.Dockerfile --tag corprof:0.1.0 .

# A library needs the C library of the system that it was built on, or a newer one. bookworm's is
# older than, or the same as, that of Microsoft's images for .NET 8, 9 and 10 (not of Alpine's, for
# which there is no agent yet). A newer base here would make an agent that those could not load.
FROM rust:1.95-bookworm AS agent
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package agent --package cli

# The startup hook is C#: it tells the agent which request a thread works for.
FROM mcr.microsoft.com/dotnet/sdk:9.0 AS hook
WORKDIR /src
COPY managed managed
RUN dotnet build --configuration Release --output /out managed/Corprof.Spans/Corprof.Spans.csproj

# A shell and `cp` for the init container, `find` for the clean-up.
FROM debian:bookworm-slim
COPY --from=agent /src/target/release/libcorprof.so /src/target/release/corprof /opt/corprof/
COPY --from=hook /out/Corprof.Spans.dll /opt/corprof/
# Microsoft's images call this user `app`. Nothing here needs root.
USER 1654:1654
