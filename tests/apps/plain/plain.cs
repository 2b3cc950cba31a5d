using System;

namespace Corprof.TestApps;

/// <summary>Computes for a second and ends: --seconds N, --exit-code N, --echo.</summary>
static class Plain
{
    static int Main(string[] words)
    {
        var arguments = new Arguments(words);
        Console.WriteLine("Hello from .NET " + Environment.Version);
        if (arguments.Has("echo"))
            Console.Write(Console.In.ReadToEnd());
        var result = Work.Spin(arguments.Double("seconds", 1));
        new Truth().Add("tid", Kernel.ThreadId).Add("result", result).Tell();
        return arguments.Int("exit-code", 0);
    }
}
