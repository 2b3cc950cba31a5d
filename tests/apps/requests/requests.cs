using System;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Corprof.TestApps;

/// <summary>
/// A web service whose requests are known: what each endpoint computed, and how long it took.
/// --load SECONDS puts it under load from a child process with --clients N, on all endpoints or on
/// --path PATH; --log FILE lists all pieces of work; --verify N asks itself N times and holds the
/// context blocks against what they must say. Requests have activities since there is a logger
/// (--listener: since somebody listens to them; --instrumented: and since it is instrumented;
/// --no-activities: they have none).
/// </summary>
static class Requests
{
    // Of a piece of work; /cpu has one, /mixed five.
    const double CpuSeconds = 0.020;
    const double MixedSeconds = 0.004;
    const int MixedPieces = 5;
    const int AwaitMillis = 100;
    const int BlockMillis = 50;

    static readonly string[] Paths = { "/cpu", "/await", "/block", "/mixed", "/await", "/nowhere" };
    static readonly Book Book = new();

    static async Task<int> Main(string[] words)
    {
        var arguments = new Arguments(words);
        if (arguments.Has("client-of"))
        {
            var paths = arguments.Has("path") ? new[] { arguments.Text("path") } : Paths;
            return await Load.Run(arguments, paths);
        }

        using var listener = Listener(arguments);
        await using var app = Build(arguments);
        await app.StartAsync();
        var url = app.Urls.First();
        Console.WriteLine("LISTENING " + new Uri(url).Port);

        var truth = new Truth();
        var code = 0;
        if (arguments.Has("verify"))
            code = await Verification.Run(url, arguments.Int("verify", 1000), truth);
        else if (arguments.Has("load"))
        {
            var (answers, errors) = await Load.RunInChild(url, words);
            truth.Add("load_answers", answers).Add("load_errors", errors);
        }
        if (arguments.Has("verify") || arguments.Has("load"))
            await app.StopAsync();
        await app.WaitForShutdownAsync();
        if (arguments.Has("log"))
            Book.WriteTo(arguments.Text("log"));
        truth.Add("endpoints", Book.Truths).Add("process_cpu_ns", Kernel.ProcessUsage).Tell();
        return code;
    }

    static ActivityListener? Listener(Arguments arguments)
    {
        if (!arguments.Has("listener"))
            return null;
        var listener = new ActivityListener
        {
            ShouldListenTo = _ => true,
            Sample = (ref ActivityCreationOptions<ActivityContext> _) =>
                ActivitySamplingResult.AllDataAndRecorded,
        };
        ActivitySource.AddActivityListener(listener);
        return listener;
    }

    static WebApplication Build(Arguments arguments)
    {
        var options = new WebApplicationOptions { ContentRootPath = AppContext.BaseDirectory };
        var builder = WebApplication.CreateBuilder(options);
        builder.Logging.ClearProviders();
        if (!arguments.Has("no-activities") && !arguments.Has("listener"))
            builder.Logging.AddProvider(new SilentLoggers());
        if (arguments.Has("instrumented"))
            Instrumentation.Add(builder);
        builder.WebHost.UseUrls("http://127.0.0.1:" + arguments.Int("port", 0));

        var app = builder.Build();
        if (arguments.Has("verify"))
            Verification.Map(app, arguments);
        app.Use(Book.Measure);
        app.MapGet("/cpu", () => Book.Piece("/cpu", () => Work.Spin(CpuSeconds)));
        app.MapGet("/await", () => Task.Delay(AwaitMillis));
        app.MapGet("/block", () => Book.Piece("/block", () => Thread.Sleep(BlockMillis)));
        app.MapGet("/mixed", Mixed);
        app.MapGet("/long/{seconds:double}", Long);
        return app;
    }

    /// <summary>Work in pieces, most of them on other threads than the one before.</summary>
    static async Task Mixed()
    {
        for (var i = 0; i < MixedPieces; i++)
        {
            Book.Piece("/mixed", () => Work.Spin(MixedSeconds));
            await (i % 2 == 0 ? Task.Delay(5) : Task.Run(() => Book.Piece("/mixed", Rest)));
        }
    }

    static void Rest() => Thread.Sleep(1);

    /// <summary>Longer than a profile's period.</summary>
    static async Task Long(double seconds)
    {
        var watch = Stopwatch.StartNew();
        while (watch.Elapsed.TotalSeconds < seconds)
        {
            Book.Piece("/long/{seconds:double}", () => Work.Spin(CpuSeconds));
            await Task.Delay(AwaitMillis);
        }
    }

    /// <summary>Loggers that are enabled and say nothing: hence there are activities.</summary>
    sealed class SilentLoggers : ILoggerProvider, ILogger
    {
        public ILogger CreateLogger(string category) => this;

        public IDisposable? BeginScope<TState>(TState state) where TState : notnull => null;

        public bool IsEnabled(LogLevel level) => true;

        public void Log<TState>(
            LogLevel level,
            EventId id,
            TState state,
            Exception? exception,
            Func<TState, Exception?, string> format)
        {
        }

        public void Dispose()
        {
        }
    }
}
