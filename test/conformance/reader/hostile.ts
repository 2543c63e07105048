// Hostile texts in every place of a query: they are compared as text, and never become part of a statement.

import { describe, expect, test } from 'vitest'
import type { Filter } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { breakingTexts } from '../../readers/request/hostile-texts.ts'
import type { ReaderBench } from './bench.ts'
import { channel, formats, publishers, records, startUs } from './fixture.ts'
import { filterOf, selected } from './oracle.ts'

const texts = [...breakingTexts, 'x'.repeat(100_000)]

/** Keys of a topic of other producers. InfluxDB stores no line end and no backslash at the end. */
const ownerless = ['plant/1', 'plant', '..', ' a. b ', 'a=b,c', '%2F', ...breakingTexts.filter(text => !/[\n\r]|\\$/.test(text))]

/** A record and a document of each of these channels. */
function batchOfOwnerless(): RecordBatch {
  const batch = new RecordBatch()
  const at = logPartition(0, 8)
  for (const [offset, channel] of ownerless.entries()) {
    batch.beginMessage({ at, offset: 2 * offset, channel, subtopic: '', publisher: publishers[0], protocol: 'kafka' })
    batch.appendRecord(0, `of-${offset}`, undefined, startUs, ValueKind.number, offset, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
    batch.beginMessage({ at, offset: 2 * offset + 1, channel, subtopic: '', publisher: publishers[0], protocol: 'kafka' })
    batch.appendDocument(0, 'events', startUs, 0, { of: offset })
    batch.endMessage()
  }
  batch.cover(at, 0, 2 * ownerless.length)
  return batch
}

export function hostileSuite(bench: ReaderBench): void {
  describe('hostile texts', () => {
    const places: Readonly<Record<string, (text: string) => Partial<Filter>>> = {
      channel: text => ({ channel: text }),
      format: text => ({ format: text.slice(0, 1024) }),
      publisher: text => ({ publisher: text }),
      subtopic: text => ({ subtopic: text }),
      protocol: text => ({ protocol: text }),
      name: text => ({ name: text }),
      unit: text => ({ unit: text }),
      'a text': text => ({ stringValue: text }),
      bytes: text => ({ dataValue: Buffer.from(text) }),
      'the path of a field': text => ({ format: formats[0], payload: [{ path: [text, text], text: 'x' }] }),
      'the text of a field': text => ({ format: formats[0], payload: [{ path: ['b'], text }] }),
    }

    test.each(Object.entries(places))('as %s they find only rows with them, of which there are none', async (_place, of) => {
      for (const text of texts) {
        const some = of(text)
        const expected = selected(bench.stored, filterOf({ channel, ...some })).length
        expect(await bench.read(some), text.slice(0, 100)).toHaveLength(expected)
        expect(await bench.count(some), text.slice(0, 100)).toBe(expected)
      }
      expect(await bench.read()).toHaveLength(records.rows.length)
    })

    test('a channel whose id is any text has its own records, documents without a subtopic, and formats', async () => {
      await bench.site.store(batchOfOwnerless())
      for (const [offset, channel] of ownerless.entries()) {
        expect(await bench.read({ channel }), channel).toMatchObject([{ channel, name: `of-${offset}` }])
        expect(await bench.read({ channel, format: 'events' }), channel).toMatchObject([
          { channel, subtopic: '', position: BigInt(2 * offset + 1) | (1n << 56n) | (8n << 44n) },
        ])
        expect((await bench.formats({ channel })).map(({ format }) => format).toSorted(), channel).toEqual(['events', 'messages'])
        expect((await bench.latest({ channel })).total, channel).toBe(1)
      }
    })
  })
}
