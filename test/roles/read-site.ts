// A control plane in a separate process, and a relational store that the sink has filled, for readers in other processes.

import { openServer } from '../../database/server.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import type { ReaderSite } from '../conformance/reader/index.ts'
import { openSite, type PostgresSite } from '../readers/postgres/site.ts'
import type { PostgresAccess } from '../servers/postgres.ts'
import { type Answer, call, makeSite, type Site } from '../up/operator.ts'
import { type Role, startApi } from './processes.ts'

export interface ReadSite {
  readonly api: Role & { /** Where its control plane lies. */ readonly database: string }
  /** An owner, their channel, and a thing that is connected to it. */
  readonly site: Site
  readonly storeUrl: string
  readonly store: PostgresSite
  close(): Promise<void>
}

/** @param start the api on a database */
export async function openReadSite(postgres: PostgresAccess, start: (databaseUrl: string) => Promise<Role> = startApi): Promise<ReadSite> {
  const database = await postgres.createDatabase()
  const api = { ...(await start(database)), database }
  const site = await makeSite(api.url)
  const storeUrl = await postgres.createDatabase()
  const store = await openSite(await openServer({ url: storeUrl, applicationName: 'read-site', connectionsMax: 4 }), async () => undefined)
  return {
    api,
    site,
    storeUrl,
    store,
    async close() {
      await store.close()
      await api.stop()
    },
  }
}

let nextOffset = 0

/** Stores `count` records of a publisher in a channel, a second apart: each value is its number, from 0. */
export async function fill(
  { store }: { readonly store: Pick<ReaderSite, 'store'> },
  channel: string,
  publisher: string,
  count: number,
): Promise<void> {
  const batch = new RecordBatch()
  const from = nextOffset
  for (let nth = 0; nth < count; nth++) {
    batch.beginMessage({ at: logPartition(0, 0), offset: nextOffset++, channel, subtopic: '', publisher, protocol: 'http' })
    batch.appendRecord(0, 'n', undefined, 1_700_000_000_000_000 + nth * 1_000_000, 1, nth, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(logPartition(0, 0), from, nextOffset)
  await store.store(batch)
}

export function read({ url }: Pick<Role, 'url'>, { channel }: Pick<Site, 'channel'>, authorization: string, query = ''): Promise<Answer> {
  return call(url, 'GET', `/channels/${channel}/messages${query}`, { authorization })
}

/** The values on a page. */
export function valuesOf({ json }: Answer): number[] {
  return (json!['messages'] as { Value: number }[]).map(({ Value: value }) => value)
}
