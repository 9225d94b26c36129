/* Commands of `beamline` for people who use language models: each takes the arguments behind its name. */
#ifndef BL_SERVER_CLIENT_H
#define BL_SERVER_CLIENT_H

int bl_chat_main(int argc, char *const *argv); /* chat.c */
int bl_pull_main(int argc, char *const *argv); /* pull.c */

#endif
