// Every line that a server refuses is found, and no other: as a property, over servers that say more or less.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { ResponseError } from '../../../sinks/influxdb/errors.ts'
import { writeIsolating } from '../../../sinks/influxdb/isolation.ts'

type Kind = 'number' | 'text' | 'old'
type Says = 'conflict' | 'nothing'

const textOf = (kinds: readonly Kind[]) => (line: number) =>
  kinds[line] === 'text' ? `typed /index=0i,a="x",b=1 ${line}` : `typed /index=0i,a=1,c=",a=\\"" ${line}`

/** Stores numbers, and drops the rest: texts for their type, old ones for their age. In `shards` shards, each of which counts for itself. */
function serverOf(kinds: readonly Kind[], says: Says, shards: number) {
  const stored = new Set<number>()
  const bodies: number[][] = []
  async function post(selection: readonly number[]): Promise<void> {
    bodies.push([...selection])
    const refused = selection.filter(line => kinds[line] !== 'number')
    for (const line of selection) if (kinds[line] === 'number') stored.add(line)
    if (refused.length === 0) return
    const ofShard = refused.filter(line => line % shards === refused[0]! % shards)
    const reason =
      kinds[refused[0]!] === 'text' && says === 'conflict'
        ? 'field type conflict: input field "a" on measurement "typed" is type string, already exists as type float'
        : 'points beyond'
    const said = `failure writing points to database: partial write: ${reason} dropped=${ofShard.length}`
    throw new ResponseError('POST', 422, JSON.stringify({ code: 'unprocessable entity', message: said }))
  }
  return { post, stored, bodies }
}

const kinds = fc.array(fc.constantFrom<Kind>('number', 'number', 'number', 'text', 'old'), { maxLength: 40 })

test('every culprit is found, and all other lines are durable', async () => {
  await fc.assert(
    fc.asyncProperty(kinds, fc.constantFrom<Says>('conflict', 'nothing'), fc.integer({ min: 1, max: 3 }), async (given, says, shards) => {
      const server = serverOf(given, says, shards)
      const found = await writeIsolating([...given.keys()], server.post, textOf(given))
      const culprits = [...given.keys()].filter(line => given[line] !== 'number')
      expect(found.map(({ line }) => line)).toEqual(culprits)
      // Each was in a body of which nothing was dropped.
      const clean = new Set(server.bodies.filter(body => body.every(line => given[line] === 'number')).flat())
      expect(clean).toEqual(new Set([...given.keys()].filter(line => given[line] === 'number')))
    }),
  )
})

test('one culprit among thousands takes two requests where the server names the field', async () => {
  const given = Array.from({ length: 5000 }, (_, line): Kind => (line === 4321 ? 'text' : 'number'))
  const server = serverOf(given, 'conflict', 1)
  expect((await writeIsolating([...given.keys()], server.post, textOf(given))).map(({ line }) => line)).toEqual([4321])
  expect(server.bodies).toHaveLength(2)
})

test('what is not about the lines is thrown', async () => {
  const away = new ResponseError('POST', 503, '')
  await expect(writeIsolating([0, 1], () => Promise.reject(away), String)).rejects.toBe(away)
})
