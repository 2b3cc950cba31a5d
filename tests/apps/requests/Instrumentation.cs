using System;
using System.Collections.Generic;
using System.Diagnostics;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Server.Kestrel.Core;

namespace Corprof.TestApps;

/// <summary>
/// What instrumentations do: an activity for each connection, around all of its requests, and one
/// in the place of the server's for each request, with a parent of its own.
/// </summary>
sealed class Instrumentation :
    IObserver<DiagnosticListener>, IObserver<KeyValuePair<string, object?>>
{
    const string HostingName = "Microsoft.AspNetCore.Hosting.HttpRequestIn";

    Instrumentation()
    {
    }

    /// <summary>Instruments the server.</summary>
    public static void Add(WebApplicationBuilder builder)
    {
        DiagnosticListener.AllListeners.Subscribe(new Instrumentation());
        builder.WebHost.ConfigureKestrel(kestrel => kestrel.ConfigureEndpointDefaults(AddToAll));
    }

    public void OnNext(DiagnosticListener listener)
    {
        if (listener.Name == "Microsoft.AspNetCore")
            listener.Subscribe(this, name => name.StartsWith(HostingName));
    }

    public void OnNext(KeyValuePair<string, object?> told)
    {
        if (told.Key == HostingName + ".Start")
        {
            var own = new Activity(HostingName);
            own.SetParentId(ActivityTraceId.CreateRandom(), ActivitySpanId.CreateRandom());
            own.Start();
        }
        else if (told.Key == HostingName + ".Stop")
        {
            Activity.Current!.Stop();
        }
    }

    public void OnCompleted()
    {
    }

    public void OnError(Exception error)
    {
    }

    static void AddToAll(ListenOptions options) => options.Use(next => async connection =>
    {
        using var activity = new Activity("connection").Start();
        await next(connection);
    });
}
