// Every line that a server refuses is found, and no other: as a property, over servers that say more or less.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { ResponseError } from '../../../sinks/influxdb/errors.ts'
import { writeIsolating } from '../../../sinks/influxdb/isolation.ts'
import { noonUs } from '../batches.ts'
import { timestampOf } from './points.ts'

type Kind = 'number' | 'text' | 'old'
type Says = 'conflict' | 'nothing'

const textOf = (kinds: readonly Kind[]) => (line: number) =>
  kinds[line] === 'text' ? `typed /index=0i,a="x",b=1 ${nsIn(kinds, line)}` : `typed /index=0i,a=1,c=",a=\\"" ${nsIn(kinds, line)}`

/** Old ones lie in 1970. */
const nsIn = (kinds: readonly Kind[], line: number): bigint => BigInt(line) + (kinds[line] === 'old' ? 0n : BigInt(noonUs) * 1000n)

const partial = (said: string): ResponseError =>
  new ResponseError(
    'POST',
    422,
    JSON.stringify({ code: 'unprocessable entity', message: `failure writing points to database: partial write: ${said}` }),
  )

/** In the words of influxd 2.7. */
const tooOld = (count: number, newestNs: bigint): string => {
  const bound = 'dropped because it violates a Retention Policy Lower Bound at 2026-09-23T19:25:41.269758126Z'
  const points = `oldest point typed,channel=c at 2026-08-12T19:25:41.266Z ${bound}, newest point typed,channel=c at ${timestampOf(newestNs)} ${bound}`
  const dropped = `dropped=${count} for database: 68c7fb394d53d2e6 for retention policy: autogen`
  return `dropped ${count} points outside retention policy of duration 1440h0m0s - ${points} ${dropped}`
}

/** Stores numbers, and drops the rest: texts for their type, old ones for their age. In `shards` shards, each of which counts for itself. */
function serverOf(kinds: readonly Kind[], says: Says, shards: number) {
  const stored = new Set<number>()
  const bodies: number[][] = []
  async function post(selection: readonly number[]): Promise<void> {
    bodies.push([...selection])
    const refused = selection.filter(line => kinds[line] !== 'number')
    for (const line of selection) if (kinds[line] === 'number') stored.add(line)
    if (refused.length === 0) return
    const shardLines = refused.filter(line => line % shards === refused[0]! % shards)
    if (kinds[refused[0]!] === 'old' && says === 'conflict')
      throw partial(tooOld(shardLines.length, BigInt(shardLines.filter(line => kinds[line] === 'old').at(-1)!)))
    const reason =
      kinds[refused[0]!] === 'text' && says === 'conflict'
        ? 'field type conflict: input field "a" on measurement "typed" is type string, already exists as type float'
        : 'points beyond'
    throw partial(`${reason} dropped=${shardLines.length}`)
  }
  return { post, stored, bodies }
}

const kinds = fc.array(fc.constantFrom<Kind>('number', 'number', 'number', 'text', 'old'), { maxLength: 40 })

test('every refused line is found, and all other lines are durable', async () => {
  // What is known of one case is no harm to the next.
  const known: Parameters<typeof writeIsolating>[3] = []
  await fc.assert(
    fc.asyncProperty(kinds, fc.constantFrom<Says>('conflict', 'nothing'), fc.integer({ min: 1, max: 3 }), async (given, says, shards) => {
      const server = serverOf(given, says, shards)
      const found = await writeIsolating([...given.keys()], server.post, textOf(given), known)
      const culprits = [...given.keys()].filter(line => given[line] !== 'number')
      expect(found.map(({ line }) => line)).toEqual(culprits)
      // Each was in a body of which nothing was dropped.
      const clean = new Set(server.bodies.filter(body => body.every(line => given[line] === 'number')).flat())
      expect(clean).toEqual(new Set([...given.keys()].filter(line => given[line] === 'number')))
    }),
  )
})

test('one refused line among thousands takes two requests if the server names the field', async () => {
  const given = Array.from({ length: 5000 }, (_, line): Kind => (line === 4321 ? 'text' : 'number'))
  const server = serverOf(given, 'conflict', 1)
  expect((await writeIsolating([...given.keys()], server.post, textOf(given))).map(({ line }) => line)).toEqual([4321])
  expect(server.bodies).toHaveLength(2)
})

test('lines with known conflicts are sent separately from then on, and no line twice', async () => {
  const given = Array.from({ length: 5000 }, (_, line): Kind => (line % 10 === 3 ? 'text' : 'number'))
  const known: Parameters<typeof writeIsolating>[3] = []
  await writeIsolating([...given.keys()], serverOf(given, 'conflict', 1).post, textOf(given), known)
  const server = serverOf(given, 'conflict', 1)
  const found = await writeIsolating([...given.keys()], server.post, textOf(given), known)
  expect(found.map(({ line }) => line)).toEqual([...given.keys()].filter(line => given[line] === 'text'))
  expect(server.bodies.flat().sort((one, other) => one - other)).toEqual([...given.keys()])
})

test.each<[string, (line: number) => Kind, number]>([
  ['all of them', () => 'old', 1],
  ['among others', line => (line % 2 === 0 ? 'old' : 'number'), 2],
])("lines that are too old, %s, are recognized by the server's message", async (_which, kindOf, requests) => {
  const given = Array.from({ length: 5000 }, (_, line) => kindOf(line))
  const server = serverOf(given, 'conflict', 1)
  const found = await writeIsolating([...given.keys()], server.post, textOf(given))
  expect(found.map(({ line }) => line)).toEqual([...given.keys()].filter(line => given[line] === 'old'))
  expect(server.bodies).toHaveLength(requests)
})

test.each(['dropped=1000', 'dropped=1000 for ', 'dropped=1000 for database: 1 for retention policy: autogen'])(
  'a field that a device calls "%s" does not reject the lines of others',
  async field => {
    const lines = ['typed a=1 1', `typed /index=0i,${field.replaceAll(/[ =]/g, '\\$&')}="x" 2`, 'typed a=1 3']
    const post = async (selection: readonly number[]): Promise<void> => {
      if (!selection.includes(1)) return
      throw partial(
        `field type conflict: input field "${field}" on measurement "typed" is type string, already exists as type float dropped=1`,
      )
    }
    expect((await writeIsolating([0, 1, 2], post, line => lines[line]!)).map(({ line }) => line)).toEqual([1])
  },
)

test('an error that is not about the lines is thrown', async () => {
  const away = new ResponseError('POST', 503, '')
  await expect(writeIsolating([0, 1], () => Promise.reject(away), String)).rejects.toBe(away)
})
