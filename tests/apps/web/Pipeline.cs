using System;
using System.Diagnostics;
using System.IO;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Corprof.TestApps;

/// <summary>
/// What a request costs without its connection: it goes through hosting, routing and its handler on
/// one thread, and nothing is read or written.
/// </summary>
static class Pipeline
{
    const int Repetitions = 9;

    public static async Task Run(int rounds)
    {
        var builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        var server = new Server();
        builder.Services.AddSingleton<IServer>(server);
        await using var app = builder.Build();
        app.MapGet("/order/{id:int}", (int id) => Task.CompletedTask);
        await app.StartAsync();

        // The best of some repetitions: what it costs when nobody else disturbs.
        long best = long.MaxValue;
        long bytes = 0;
        for (var repetition = 0; repetition < Repetitions; repetition++)
        {
            var allocated = GC.GetTotalAllocatedBytes(true);
            var begin = Stopwatch.GetTimestamp();
            for (var i = 0; i < rounds; i++)
                await server.Answer!(Request());
            best = Math.Min(best, Stopwatch.GetTimestamp() - begin);
            bytes = GC.GetTotalAllocatedBytes(true) - allocated;
        }
        var picos = best * 1e12 / Stopwatch.Frequency / rounds;
        new Truth().Add("request_ps", (long)picos).Add("request_bytes", bytes / rounds).Tell();
    }

    static IFeatureCollection Request()
    {
        var features = new FeatureCollection();
        features.Set<IHttpRequestFeature>(
            new HttpRequestFeature { Method = "GET", Path = "/order/1", Scheme = "http" });
        features.Set<IHttpResponseFeature>(new HttpResponseFeature());
        features.Set<IHttpResponseBodyFeature>(new StreamResponseBodyFeature(Stream.Null));
        return features;
    }

    /// <summary>A server without connections.</summary>
    sealed class Server : IServer
    {
        /// <summary>Has the application answer a request.</summary>
        public Func<IFeatureCollection, Task>? Answer { get; private set; }

        public IFeatureCollection Features { get; } = new FeatureCollection();

        public Task StartAsync<T>(IHttpApplication<T> application, CancellationToken cancellation)
            where T : notnull
        {
            Answer = async features =>
            {
                var context = application.CreateContext(features);
                await application.ProcessRequestAsync(context);
                application.DisposeContext(context, null);
            };
            return Task.CompletedTask;
        }

        public Task StopAsync(CancellationToken cancellation) => Task.CompletedTask;

        public void Dispose()
        {
        }
    }
}
