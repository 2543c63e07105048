// Every route of the control plane, each with valid requests: for all tests that call every route.

import { createServer, type HttpServer } from '../../../http/server.ts'
import { recordingLogger } from '../platform.ts'
import { certificateRows } from './certificate-rows.ts'
import { channelRows } from './channel-rows.ts'
import { groupRows } from './group-rows.ts'
import { provisioningRows } from './provisioning-rows.ts'
import type { Row } from './row.ts'
import { thingRows } from './thing-rows.ts'
import { userRows } from './user-rows.ts'

/** Rows that change nothing come first: lists are exact until other entities are created. */
export const controlPlaneRows: readonly Row[] = inOrder([
  ...userRows,
  ...thingRows,
  ...channelRows,
  ...groupRows,
  ...certificateRows,
  ...provisioningRows,
])

export function inOrder(rows: readonly Row[]): Row[] {
  return rows.toSorted((left, right) => Number(left.changes !== undefined) - Number(right.changes !== undefined))
}

/** The routes that a plugin registers, as the API's description names them; without the HEAD that comes with each GET. */
export async function routesOf(plugin: (app: HttpServer) => Promise<void>): Promise<string[]> {
  const app = createServer({ logger: recordingLogger().logger })
  const routes: string[] = []
  app.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) if (one !== 'HEAD') routes.push(`${one} ${url.replace(/:(\w+)/g, '{$1}')}`)
  })
  await app.register(plugin)
  await app.close()
  return routes.sort()
}
