// The log: its format, without secrets and rows.

import { PassThrough } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import { DatabaseError } from '../../database/database.ts'

async function logged(pretty: boolean, write: (logger: ReturnType<typeof createLogger>) => void): Promise<string> {
  const stream = new PassThrough()
  write(createLogger({ level: 'info', pretty }, stream))
  // The pretty stream needs a turn of the event loop.
  await setImmediate()
  return (stream.read() as Buffer | null)?.toString() ?? ''
}

test('a line is one JSON object with level, time and message, and nothing about the machine', async () => {
  const line = JSON.parse(await logged(false, logger => logger.info({ rows: 3 }, 'batch stored'))) as Record<string, unknown>
  expect(Object.keys(line)).toEqual(['level', 'time', 'rows', 'msg'])
  expect(line).toMatchObject({ level: 'info', rows: 3, msg: 'batch stored' })
  expect(new Date(line['time'] as string).getTime()).toBeGreaterThan(Date.now() - 60_000)
})

test.each([false, true])('secrets are redacted on both levels of a line (pretty: %s)', async pretty => {
  const text = await logged(pretty, logger => {
    logger.info(
      { authorization: 'hidden1', password: 'hidden2', thing: { key: 'hidden3' }, req: { headers: { authorization: 'hidden4' } } },
      'a line',
    )
    logger.child({ token: 'hidden5' }).warn('another')
  })
  expect(text).not.toContain('hidden')
  expect(text.match(/\*\*\*/g)?.length).toBeGreaterThanOrEqual(4)
})

test("an error is logged with its causes and code, and without a driver's other properties", async () => {
  const driver = Object.assign(new Error('duplicate key'), { code: '23505', detail: 'Key (email)=(hidden@example.com) already exists.' })
  const error = new DatabaseError('insert failed', { sqlState: '23505', detail: 'hidden', cause: driver })
  const line = JSON.parse(await logged(false, logger => logger.error({ err: error }, 'request failed'))) as { err: Record<string, unknown> }
  expect(line.err).toMatchObject({
    type: 'DatabaseError',
    message: 'insert failed',
    code: '23505',
    cause: { type: 'Error', message: 'duplicate key' },
  })
  expect(JSON.stringify(line)).not.toContain('hidden')
})

test('an error that is its own cause is logged', async () => {
  const error = new Error('round')
  error.cause = error
  expect(await logged(false, logger => logger.error({ err: error }, 'x'))).toContain('round')
})
