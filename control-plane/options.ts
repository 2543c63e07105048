// The sections `users` and `tokens`: who may register, and how long a token lives.

import { type Static, Type } from 'typebox'

export const usersOptions = Type.Object({
  allowSelfRegister: Type.Boolean({
    default: true,
    description: 'Whether anybody may register. With false only an administrator creates users.',
  }),
})

export const tokensOptions = Type.Object({
  lifetimeSeconds: Type.Integer({
    default: 36_000,
    minimum: 60,
    maximum: 31_536_000,
    description: 'Seconds after which a token ends. A password change ends it earlier.',
  }),
})

export interface ControlPlaneOptions {
  readonly users: Static<typeof usersOptions>
  readonly tokens: Static<typeof tokensOptions>
}
