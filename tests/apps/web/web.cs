using System;
using System.Collections.Concurrent;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Corprof.TestApps;

/// <summary>
/// A small web service: --port N (0 for any free one), and --load SECONDS to put itself under load
/// from a child process with --clients N, and then to end. --cpu THOUSANDS is the work of a request
/// that computes. With --pipeline ROUNDS it tells what a request costs that comes from nowhere.
/// </summary>
static class Web
{
    // The orders of a hundred customers, some work, and an exception now and then.
    static string[] Paths(int thousands) => Enumerable.Range(0, 100)
        .Select(i => i % 50 == 49 ? "/throw" : i % 5 == 4 ? "/cpu/" + thousands : "/order/" + i)
        .ToArray();

    static long requests;

    static async Task<int> Main(string[] words)
    {
        var arguments = new Arguments(words);
        if (arguments.Has("client-of"))
            return await Load.Run(arguments, Paths(arguments.Int("cpu", 100)));
        if (arguments.Has("pipeline"))
        {
            await Pipeline.Run(arguments.Int("pipeline", 100_000));
            return 0;
        }

        await using var app = Build(arguments.Int("port", 0));
        await app.StartAsync();
        Console.WriteLine("LISTENING " + new Uri(app.Urls.First()).Port);

        var truth = new Truth();
        if (arguments.Has("load"))
        {
            var (answers, errors) = await Load.RunInChild(app.Urls.First(), words);
            truth.Add("load_answers", answers).Add("load_errors", errors);
            await app.StopAsync();
        }
        await app.WaitForShutdownAsync();
        truth.Add("requests", requests).Add("process_cpu_ns", Kernel.ProcessUsage).Tell();
        return 0;
    }

    static WebApplication Build(int port)
    {
        var options = new WebApplicationOptions { ContentRootPath = AppContext.BaseDirectory };
        var builder = WebApplication.CreateBuilder(options);
        builder.Logging.ClearProviders();
        builder.WebHost.UseUrls("http://127.0.0.1:" + port);
        builder.Services.AddSingleton<OrderStore>();

        var app = builder.Build();
        app.Use(async (context, next) =>
        {
            Interlocked.Increment(ref requests);
            await next(context);
        });
        app.MapGet("/", () => "ok " + Environment.Version);
        app.MapGet("/order/{id:int}", async (int id, OrderStore store) =>
        {
            await Task.Yield();
            return Results.Json(store.Get(id));
        });
        app.MapGet("/cpu/{thousands:int}", (int thousands) => Compute(thousands).ToString());
        app.MapGet("/throw", string () => throw new InvalidOperationException("on demand"));
        app.MapPost("/quit", (IHostApplicationLifetime lifetime) =>
        {
            lifetime.StopApplication();
            return "bye";
        });
        return app;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Compute(int thousands) => Work.Multiply(thousands * 1000);
}

/// <summary>A line of an order.</summary>
record Item(string Sku, int Quantity, decimal Price);

/// <summary>An order, with a total that is computed when it is written.</summary>
record Order(int Id, string Customer, Item[] Items)
{
    public decimal Total => Items.Sum(item => item.Quantity * item.Price);
}

/// <summary>Makes each order when it is first asked for.</summary>
class OrderStore
{
    const int ItemsPerOrder = 5;

    readonly ConcurrentDictionary<int, Order> orders = new();

    public Order Get(int id) => orders.GetOrAdd(id, Make);

    static Order Make(int id)
    {
        var items = Enumerable.Range(0, ItemsPerOrder).Select(i => new Item("s" + i, i, id));
        return new Order(id, "customer " + id, items.ToArray());
    }
}
