// The store of a suite that is closed and opened again.

import { onTestFinished } from 'vitest'

interface Closable {
  close(): Promise<void>
  /** Resolves when it has read what is kept. */
  ready?(): Promise<void>
}

interface Openable<Store> {
  readonly open: () => Store
}

/** @param made opens what is kept. @returns it, with the store that is open until the test is over, and `reopen`, which closes that and opens another */
export async function openReopening<Store extends Closable, Made extends Openable<Store>>(
  made: Made & Openable<Store>,
): Promise<Made & { readonly store: Store; readonly reopen: () => Promise<Store> }> {
  let store = made.open()
  onTestFinished(() => store.close())
  await store.ready?.()
  return {
    ...made,
    get store() {
      return store
    },
    async reopen() {
      await store.close()
      store = made.open()
      await store.ready?.()
      return store
    },
  }
}
