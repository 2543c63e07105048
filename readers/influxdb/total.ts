// How many rows a selection has: counted by the storage, window by window, up to a bound.

import type { Selection } from '../query.ts'
import type { Asking } from './asking.ts'
import { searchOf } from './finders.ts'
import type { Paces } from './paces.ts'
import { eachMatching, walkOf } from './page.ts'
import { countIn, rowsIn } from './places.ts'
import { boundsOf } from './span.ts'
import { walk } from './walk.ts'

/** Counted from the newest on, up to `max` and one more. */
export async function countRows(asking: Asking, selection: Selection, max: number, paces: Paces): Promise<number> {
  const search = searchOf(selection)
  if (search.finders.length === 0) return 0
  const { whole, before, behind } = boundsOf(selection)
  const borders = [before, behind].filter(border => border !== undefined)
  let total = 0
  for await (const rows of rowsIn(asking, selection, borders)) total += rows.length
  const wanted = max + 1 - total
  if (search.isExact) {
    const begun = await walkOf(asking, selection, search, {
      span: whole,
      direction: 'desc',
      wanted,
      widthUs: paces.widthUs(selection, wanted),
    })
    await walk(begun, async window => {
      const found = await countIn(asking, selection, search, window)
      total += found
      return { found }
    })
  } else {
    await eachMatching(asking, selection, search, { span: whole, direction: 'desc', wanted }, async pieces => {
      let found = 0
      for await (const rows of pieces) found += rows.length
      total += found
      return found
    })
  }
  return Math.min(total, max + 1)
}
