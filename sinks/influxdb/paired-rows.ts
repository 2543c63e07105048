// Puts together the two integers of each point, which come one after the other: a series' indexes, and then its positions.
//
// A `pivot` in the server does the same, and takes several times as long where there are many series.

import type { Columns, Row } from './annotated-csv.ts'

export interface PairedRows {
  /** A row of either field: those of a series and field lie together, in the order of their times. */
  add(row: Row): void
  /** @returns series, by measurement and tags, whose fields have not the same number of points; nothing of them was given */
  finish(): Record<string, string>[]
}

interface Series {
  readonly tags: Record<string, string>
  readonly values: { readonly '/index': string[]; readonly '/position': string[] }
}

/** What every table has beside measurement and tags. */
const ownColumns = new Set(['', 'result', 'table', '_start', '_stop', '_time', '_value', '_field'])

/** @param give is called for each point of a series whose fields have come */
export function pairedRows(give: (position: string, index: string) => void): PairedRows {
  /** Waiting for the other field, or for more of it. Two in the ordinary case: the one before last is whole when the next begins. */
  const waiting = new Map<string, Series>()
  let columns: Columns | undefined
  let names: readonly (readonly [name: string, place: number])[] = []
  let [table, field, value] = [-1, -1, -1]
  let tableBefore = ''
  let series: Series | undefined
  let values: string[] = []

  function settle(): void {
    for (const [key, { values }] of waiting) {
      const [positions, indexes] = [values['/position'], values['/index']]
      if (positions.length === 0 || positions.length !== indexes.length) continue
      for (let at = 0; at < positions.length; at++) give(positions[at]!, indexes[at]!)
      waiting.delete(key)
    }
  }

  function begin(row: Row): void {
    const tags = Object.fromEntries(names.map(([name, place]) => [name, row.cells[place]!]))
    const key = JSON.stringify(tags)
    series = waiting.get(key)
    if (series === undefined) {
      settle()
      series = { tags, values: { '/index': [], '/position': [] } }
      waiting.set(key, series)
    }
    values = series.values[row.cells[field] as '/index' | '/position']
  }

  return {
    add(row) {
      if (row.columns !== columns) {
        columns = row.columns
        names = [...columns.places].filter(([name]) => !ownColumns.has(name))
        ;[table, field, value] = ['table', '_field', '_value'].map(name => columns!.places.get(name)!) as [number, number, number]
        tableBefore = ''
      }
      if (row.cells[table] !== tableBefore) {
        tableBefore = row.cells[table]!
        begin(row)
      }
      values.push(row.cells[value]!)
    },
    finish() {
      settle()
      return [...waiting.values()].map(({ tags }) => tags)
    },
  }
}
