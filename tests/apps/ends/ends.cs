using System;
using System.IO;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>
/// Computes for --seconds N in a thread, and ends in one of the ways that programs end: --how
/// return, exit, exception, fail-fast, or wait, which makes the file --ready PATH and waits to be
/// ended from outside.
/// </summary>
static class Ends
{
    const int ExitCode = 5;

    static int Main(string[] words)
    {
        var arguments = new Arguments(words);
        var seconds = arguments.Double("seconds", 0.5);
        var worker = new Thread(() => End(arguments, seconds)) { Name = "worker" };
        worker.Start();
        worker.Join();
        return ExitCode;
    }

    static void End(Arguments arguments, double seconds)
    {
        Work.Spin(seconds);
        switch (arguments.Text("how"))
        {
            case "exit":
                Environment.Exit(ExitCode);
                break;
            case "exception":
                throw new InvalidOperationException("nobody catches this");
            case "fail-fast":
                Environment.FailFast("this ends at once");
                break;
            case "wait":
                File.WriteAllText(arguments.Text("ready"), "");
                Thread.Sleep(Timeout.Infinite);
                break;
        }
    }
}
