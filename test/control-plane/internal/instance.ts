// An instance of the control plane on a PostgreSQL server as `sluice api` wires it: a public and an internal listener, in this process.

import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { openOutage } from '../../../config/outage.ts'
import { accessChangesChannel } from '../../../control-plane/access-changes.ts'
import type { Credential } from '../../../control-plane/client.ts'
import { type Feed, openFeed } from '../../../control-plane/internal/feed.ts'
import { internalRoutes } from '../../../control-plane/internal/routes.ts'
import { openNotifications } from '../../../database/notifications.ts'
import { openServer } from '../../../database/server.ts'
import { closeServer } from '../../../http/listen.ts'
import { createServer, type HttpServer } from '../../../http/server.ts'
import type { ServerTls } from '../../../http/tls-files.ts'
import { openPlatform, type Platform, recordingLogger } from '../platform.ts'

export const token = 'a-token-that-processes-share'

export interface Instance {
  /** The public listener, for users. */
  readonly platform: Platform
  readonly feed: Feed
  /** The internal listener, for processes. */
  readonly app: HttpServer
  readonly internalUrl: string
  readonly port: number
  /** Log of the internal side. */
  readonly logged: () => string
}

interface Extra {
  readonly token?: string | undefined
  readonly tls?: ServerTls
  /** Where its notifications come from, if not directly from the database. */
  readonly notificationsUrl?: string
  /** How long these may not come; by default longer than any machine stands still. */
  readonly answerMsMax?: number | undefined
}

/** Closed at the end of the test. */
export async function openInstance(databaseUrl: string, extra: Extra = {}): Promise<Instance> {
  const { logger, logged } = recordingLogger()
  const database = await openServer({ url: databaseUrl, applicationName: 'sluice-test', connectionsMax: 4 })
  const platform = await openPlatform(database)
  const beat = Promise.withResolvers<void>()
  const feed = openFeed({
    openNotifications: listener =>
      openNotifications(
        {
          url: extra.notificationsUrl ?? databaseUrl,
          applicationName: 'sluice-test-notifications',
          channel: accessChangesChannel,
          answerMsMax: extra.answerMsMax ?? 60_000,
        },
        {
          ...listener,
          onBeat() {
            listener.onBeat()
            beat.resolve()
          },
        },
      ),
    outage: openOutage({ logger, dependency: 'database', name: 'PostgreSQL' })(),
    logger,
  })
  const app = createServer({ logger, ...(extra.tls === undefined ? {} : { tls: extra.tls }) })
  app.register(internalRoutes({ access: platform.plane.access, feed, token: 'token' in extra ? extra.token : token }))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  onTestFinished(async () => {
    // A client may have opened a connection without sending anything on it, and a server waits for it.
    await closeServer(app, 200)
    await feed.close()
    await platform.close()
    await database.close()
  })
  await beat.promise
  return { platform, feed, app, port, internalUrl: `${extra.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`, logged }
}

/** `Thing 3a1c`, parsed. */
export function credentialOf(authorization: string): Credential {
  const [scheme, secret] = authorization.split(' ') as ['Thing' | 'Bearer', string]
  return { scheme, secret }
}
