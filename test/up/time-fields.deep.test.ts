// The platform with configured time fields: documents are stored with the time that they contain.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { call, expectStatus, makeSite } from './operator.ts'
import { startedFolder, startPlatform } from './platform.ts'

test('Created comes from the first time field in a document, exact to the nanosecond, and otherwise from its reception', async () => {
  await using folder = await startedFolder()
  const file = join(folder.path, 'sluice.toml')
  await writeFile(
    file,
    `[[transformer.time_fields]]
field_name = "measured"
field_format = "2006-01-02 15:04:05"
location = "America/New_York"

[[transformer.time_fields]]
field_name = "at"
field_format = "unix_ns"
`,
  )
  const platform = await startPlatform({ data: folder.path, arguments: ['--config', file] })
  const { channel, device, owner } = await makeSite(platform.url)
  const body = '[{"measured":"2024-07-01 08:00:00.25","at":1,"n":1},{"at":1719835200123456789,"n":2},{"n":3}]'
  const beforeMs = Date.now()
  await expectStatus(
    call(platform.url, 'POST', `/channels/${channel}/messages/house/climate`, { authorization: device, type: 'application/json', body }),
    202,
  )

  const created = await createdOf(platform.url, channel, owner, 3)
  expect(created.get(1)).toBe('1719835200250000000')
  expect(created.get(2)).toBe('1719835200123456789')
  // Within minutes: the platform's clock may be corrected later than this one after the machine stood still.
  expect(Math.abs(Number(BigInt(created.get(3)!) / 1_000_000n) - beforeMs)).toBeLessThan(600_000)
  expect(await platform.stop()).toBe(0)
})

/** Created in full by the number n in the payload; waits until `count` documents are stored. */
async function createdOf(base: string, channel: string, authorization: string, count: number): Promise<Map<number, string>> {
  for (;;) {
    const { text } = await expectStatus(call(base, 'GET', `/channels/${channel}/messages?format=climate`, { authorization }), 200)
    const documents = [...text.matchAll(/"Created":(\d+),"Payload":\{[^}]*"n":(\d)/g)].map(
      ([, created, n]) => [Number(n), created!] as const,
    )
    if (documents.length >= count) return new Map(documents)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}
