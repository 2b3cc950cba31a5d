using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;

namespace Corprof.TestApps;

/// <summary>The load on a web service, by clients in a process of their own.</summary>
static class Load
{
    // A profiler of the service must not load itself into the clients.
    static readonly string[] ForeignPrefixes = { "CORECLR_", "CORPROF_", "LD_PRELOAD" };

    /// <summary>Starts this program as the clients; gives their answers and errors.</summary>
    public static async Task<(long, long)> RunInChild(string url, string[] words)
    {
        // All words up to the program's own arguments: the launcher, its options and the assembly.
        // On Windows there is none but a single file.
        var line = OperatingSystem.IsWindows()
            ? words.Prepend(Environment.ProcessPath!).ToArray()
            : File.ReadAllText("/proc/self/cmdline").TrimEnd('\0').Split('\0');
        var start = new ProcessStartInfo(line[0]) { RedirectStandardOutput = true };
        foreach (var word in line[1..^words.Length])
            start.ArgumentList.Add(word);
        foreach (var word in words.Concat(new[] { "--client-of", url }))
            start.ArgumentList.Add(word);
        foreach (var name in start.Environment.Keys.ToList())
        {
            if (ForeignPrefixes.Any(prefix => name.StartsWith(prefix)))
                start.Environment.Remove(name);
        }
        using var child = Process.Start(start)!;
        var report = (await child.StandardOutput.ReadToEndAsync()).Split();
        await child.WaitForExitAsync();
        return (long.Parse(report[0]), long.Parse(report[1]));
    }

    /// <summary>The clients: each asks for the next path as soon as it has its answer.</summary>
    public static async Task<int> Run(Arguments arguments, string[] paths)
    {
        using var http = new HttpClient { BaseAddress = new Uri(arguments.Text("client-of")) };
        var seconds = arguments.Double("load", 5);
        var watch = Stopwatch.StartNew();
        long answers = 0, errors = 0;
        var clients = Enumerable.Range(0, arguments.Int("clients", 16)).Select(async client =>
        {
            for (var i = client; watch.Elapsed.TotalSeconds < seconds; i++)
            {
                using var answer = await http.GetAsync(paths[i % paths.Length]);
                await answer.Content.ReadAsByteArrayAsync();
                Interlocked.Increment(ref answer.IsSuccessStatusCode ? ref answers : ref errors);
            }
        });
        await Task.WhenAll(clients.ToArray());
        Console.WriteLine($"{answers} {errors}");
        return 0;
    }
}
