// The wide-column store of a site: Cassandra, read with the driver and the tests' own CQL.

import { Client, type types } from 'cassandra-driver'
import { startCassandra } from '../../servers/cassandra.ts'
import { openProxy } from '../../servers/process/proxy.ts'
import { documentText, senmlText } from '../messages.ts'
import { placeAt, type StoredRow, type StoreSite } from './store-site.ts'

const pageRows = 5_000

export async function openCassandraSite(): Promise<StoreSite> {
  const server = await startCassandra({ syncsEach: true })
  const proxy = await openProxy({ port: Number(server.contactPoint.split(':')[1]) })
  return {
    name: 'widecolumn',
    proxy,
    environment: {
      // Nodes are assumed to listen on the port of the URL, so that the node's own address also leads to the proxy.
      SVC_WIDECOLUMN_URL: `cassandra://127.0.0.1:${proxy.port}/sluice`,
      SVC_STORE_CONNECT_TIMEOUT_MS: '10000',
    },
    directEnvironment: { SVC_WIDECOLUMN_URL: `cassandra://${server.contactPoint}/sluice` },
    rows: () => rowsOf(server.contactPoint),
    kill: () => server.kill(),
    restart: how => server.restart(how),
    async close() {
      await proxy.close()
      await server.stop()
    },
  }
}

interface Found {
  readonly position: bigint
  readonly index: number
  readonly text: string
}

/** Each query has its own connection, because the server is killed from time to time. No key has the order of positions, so each table is sorted here. */
async function* rowsOf(contactPoint: string): AsyncGenerator<StoredRow> {
  const client = new Client({ contactPoints: [contactPoint], localDataCenter: 'datacenter1', encoding: { useBigIntAsLong: true } })
  try {
    await client.connect()
    yield* await table(client, 'messages', 'messages', row => {
      const { channel, publisher, subtopic, name, value, time_us: timeUs } = row as unknown as Record<string, string>
      return senmlText({ channel, publisher, subtopic, name, value: Number(value), seconds: Number(timeUs) / 1e6 } as Parameters<
        typeof senmlText
      >[0])
    })
    for (const { format, table_name: name } of (await client.execute('SELECT format, table_name FROM sluice.sluice_formats')).rows) {
      yield* await table(client, name as string, format as string, row => {
        const { channel, publisher, subtopic, payload } = row as unknown as Record<string, string>
        return documentText({ channel, publisher, subtopic, payload: JSON.parse(payload!) as unknown } as Parameters<
          typeof documentText
        >[0])
      })
    }
  } finally {
    await client.shutdown()
  }
}

async function table(client: Client, name: string, called: string, textOf: (row: types.Row) => string): Promise<StoredRow[]> {
  const found: Found[] = []
  let pageState: string | null | undefined
  do {
    const page = await client.execute(`SELECT * FROM sluice."${name}"`, [], {
      prepare: true,
      fetchSize: pageRows,
      ...(typeof pageState === 'string' ? { pageState } : {}),
    })
    for (const row of page.rows) {
      const { position, index } = row as unknown as Found
      found.push({ position, index, text: textOf(row) })
    }
    pageState = page.pageState
  } while (typeof pageState === 'string')
  found.sort((one, other) => (one.position === other.position ? one.index - other.index : one.position < other.position ? -1 : 1))
  return found.map(({ position, index, text }) => ({ table: called, ...placeAt(position), index, text }))
}
