// The child of crash.slow.test.ts: writes to an embedded database until it is killed, or until its disk is full.

import { createInterface } from 'node:readline'
import { DatabaseError } from '../../database/database.ts'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import { binaryRows, int4, text } from '../conformance/binary-rows.ts'

const [folder = '', mode = ''] = process.argv.slice(2)
const database = await openEmbedded({ folder, upkeepIntervalMs: 0 })
const say = (event: Record<string, unknown>): void => void process.stdout.write(`${JSON.stringify(event)}\n`)

if (mode === 'copy') {
  const rows = binaryRows(Array.from({ length: 100_000 }, (_, at) => [int4(at), text('x'.repeat(100))]))
  for (let batch = 0; ; batch += 1) {
    await database.transaction(async transaction => {
      await transaction.execute(`INSERT INTO batches VALUES (${batch})`)
      // The third batch is copied until the parent kills this process, whenever that is.
      const copies = batch === 2 ? Number.POSITIVE_INFINITY : 2
      for (let nth = 0; nth < copies; nth += 1) {
        const copying = transaction.copy('rows', rows)
        say({ copying: batch, nth })
        await copying
      }
    })
    say({ committed: batch })
  }
}

// Fills the write-ahead log until its next file cannot be created; then the parent lifts the limit and sends a message.
let written = 0
try {
  for (; written < 100; written += 1) await database.query(`INSERT INTO batches VALUES ($1)`, [written]).then(() => log())
} catch (error) {
  say({ stopped: written, sqlState: error instanceof DatabaseError ? error.sqlState : '', message: String(error) })
}
const again = await database.query('SELECT 1').then(
  () => 'answered',
  (error: unknown) => (error instanceof DatabaseError ? error.sqlState : String(error)),
)
say({ again })
for await (const _ of createInterface({ input: process.stdin })) {
  const batches = await database.query<{ id: number }>('SELECT id FROM batches ORDER BY id')
  await database.query('INSERT INTO batches VALUES (1000)')
  say({ recovered: batches.map(batch => batch.id) })
  break
}
await database.close()
say({ closed: true })
process.exit(0)

async function log(): Promise<void> {
  await database.query(`SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000000))::text`)
}
